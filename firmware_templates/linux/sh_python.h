// SPDX-License-Identifier: 0BSD
// The part of Python's stable ABI (3.11 and later) that sh_module.c uses, declared from its
// documentation, so that a module is built without Python's headers, for any machine.
//
// Where Python.h was included before, its types are used, and a compiler compares the functions.
#ifndef SH_PYTHON_H
#define SH_PYTHON_H

#include <stddef.h>
#include <stdint.h>

#define SH_EXPORT __attribute__((visibility("default")))

#ifndef Py_PYTHON_H
typedef intptr_t Py_ssize_t;
typedef struct _typeobject PyTypeObject;
typedef struct _ts PyThreadState;

typedef struct _object {
    Py_ssize_t ob_refcnt;
    PyTypeObject *ob_type;
} PyObject;

typedef PyObject *(*PyCFunction)(PyObject *self, PyObject *arguments);

typedef struct PyMethodDef {
    const char *ml_name;
    PyCFunction ml_meth;
    int ml_flags;
    const char *ml_doc;
} PyMethodDef;

typedef struct PyModuleDef_Base {
    PyObject ob_base;
    PyObject *(*m_init)(void);
    Py_ssize_t m_index;
    PyObject *m_copy;
} PyModuleDef_Base;

typedef struct PyModuleDef_Slot {
    int slot;
    void *value;
} PyModuleDef_Slot;

typedef struct PyModuleDef {
    PyModuleDef_Base m_base;
    const char *m_name;
    const char *m_doc;
    Py_ssize_t m_size;
    PyMethodDef *m_methods;
    PyModuleDef_Slot *m_slots;
    int (*m_traverse)(PyObject *module, int (*visit)(PyObject *object, void *data), void *data);
    int (*m_clear)(PyObject *module);
    void (*m_free)(void *module);
} PyModuleDef;

typedef struct {
    void *buf;
    PyObject *obj;
    Py_ssize_t len;
    Py_ssize_t itemsize;
    int readonly;
    int ndim;
    char *format;
    Py_ssize_t *shape;
    Py_ssize_t *strides;
    Py_ssize_t *suboffsets;
    void *internal;
} Py_buffer;

// clang-format off
#define PyModuleDef_HEAD_INIT {{1, NULL}, NULL, 0, NULL}
// clang-format on
#define METH_NOARGS 0x0004
#define METH_FASTCALL 0x0080
#define Py_mod_exec 2
#define PyBUF_WRITABLE 0x0001
#define PyBUF_FULL_RO 0x011C
#define Py_None (&_Py_NoneStruct)
#endif

extern PyObject _Py_NoneStruct;
extern PyObject *PyExc_BufferError;
extern PyObject *PyExc_ImportError;
extern PyObject *PyExc_RuntimeError;
extern PyObject *PyExc_TypeError;
extern PyObject *PyExc_ValueError;

PyObject *PyModuleDef_Init(PyModuleDef *definition);
void *PyModule_GetState(PyObject *module);
PyObject *PyImport_ImportModule(const char *name);
PyObject *PyObject_GetAttrString(PyObject *object, const char *name);
PyObject *PyObject_CallFunction(PyObject *callable, const char *format, ...);
PyObject *PyObject_Call(PyObject *callable, PyObject *arguments, PyObject *keywords);
PyObject *PyObject_Type(PyObject *object);
PyObject *Py_BuildValue(const char *format, ...);
PyObject *PyTuple_New(Py_ssize_t size);
int PyTuple_SetItem(PyObject *tuple, Py_ssize_t index, PyObject *item);
PyObject *PyUnicode_FromString(const char *text);
PyObject *PyUnicode_FromFormat(const char *format, ...);
PyObject *PyLong_FromSsize_t(Py_ssize_t value);
int PyObject_GetBuffer(PyObject *object, Py_buffer *view, int flags);
int PyBuffer_IsContiguous(const Py_buffer *view, char order);
void PyBuffer_Release(Py_buffer *view);
PyObject *PyErr_Format(PyObject *exception, const char *format, ...);
int PyErr_ExceptionMatches(PyObject *exception);
void PyErr_Clear(void);
PyThreadState *PyEval_SaveThread(void);
void PyEval_RestoreThread(PyThreadState *state);
void Py_IncRef(PyObject *object);
void Py_DecRef(PyObject *object);

#endif
