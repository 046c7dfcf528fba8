// SPDX-License-Identifier: 0BSD
// The Python module of a model. sh_model.h says which model and what its arrays are.
//
// Arrays come through the buffer protocol and leave as arrays of numpy.empty, so neither NumPy's
// nor Python's headers are needed. An inference runs without the interpreter's lock. There is one
// arena, so a second thread gets an error while an inference runs.
#include "sh_python.h"
//
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "sh_model.h"

// An array as the model takes or gives it.
typedef struct {
    const char *name;
    const char *dtype;
    char kind; // i: signed, u: unsigned, f: floating point, b: bool
    Py_ssize_t itemsize;
    int rank;
    Py_ssize_t shape[SH_MOST_RANK];
} array;

// What an interpreter has of this module: numpy.empty, and its arguments for each output.
typedef struct {
    PyObject *empty;
    PyObject *made_of[SH_OUTPUT_COUNT];
} state;

static const array inputs[SH_INPUT_COUNT] = SH_INPUTS;
static const array outputs[SH_OUTPUT_COUNT] = SH_OUTPUTS;
static atomic_flag busy = ATOMIC_FLAG_INIT;
#ifdef SH_ROWS
static int32_t arrived; // rows of this inference
#endif

int __register_atfork(void (*before)(void), void (*parent)(void), void (*child)(void),
                      void *library);

// The child of a fork has the forking thread alone: what another one had begun never ends.
static void forked(void)
{
    if (atomic_flag_test_and_set(&busy)) {
#ifdef SH_ROWS
        arrived = 0;
#endif
#ifdef SH_RESTART
        SH_RESTART();
#endif
#ifdef SH_RESET
        SH_RESET();
#endif
    }
    atomic_flag_clear(&busy);
}

// When the module is loaded: a fork that has begun calls no function that is registered meanwhile.
__attribute__((constructor)) static void loaded(void)
{
    (void)__register_atfork(NULL, NULL, forked, NULL);
}

static bool begin(void)
{
    if (atomic_flag_test_and_set(&busy)) {
        PyErr_Format(PyExc_RuntimeError,
                     "%s: another thread is in an inference, and the model has one arena; take a "
                     "lock around the calls, or one process for each thread",
                     SH_NAME);
        return false;
    }
    return true;
}

static void end(void)
{
    atomic_flag_clear(&busy);
}

// The kind of the items of a buffer, in the machine's own byte order; 0 for others.
static char kind_of(const char *format)
{
    static const char kinds[] = "bihiiiliqiBuHuIuLuQuefffdf?b";
    const uint16_t one = 1;
    const bool little = *(const uint8_t *)&one == 1;
    if (format == NULL) {
        return 'u';
    }
    if (*format == '@' || *format == '=' || *format == (little ? '<' : '>')) {
        format++;
    }
    if (*format == '\0' || format[1] != '\0') {
        return 0;
    }
    for (const char *at = kinds; *at != '\0'; at += 2) {
        if (*at == *format) {
            return at[1];
        }
    }
    return 0;
}

// What the items of a buffer are, in words; a new reference.
static PyObject *items_of(const Py_buffer *view)
{
    static const char *const names[] = {"int", "uint", "float", "bool"};
    const char kind = kind_of(view->format);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (*names[i] == kind) {
            return kind == 'b' ? PyUnicode_FromString(names[i])
                               : PyUnicode_FromFormat("%s%zd", names[i], 8 * view->itemsize);
        }
    }
    return PyUnicode_FromFormat("items of format '%s'", view->format);
}

static PyObject *shape_of(int rank, const Py_ssize_t *shape)
{
    PyObject *made = PyTuple_New(rank);
    for (int i = 0; made != NULL && i < rank; i++) {
        PyObject *size = PyLong_FromSsize_t(shape[i]);
        if (size == NULL || PyTuple_SetItem(made, i, size) != 0) {
            Py_DecRef(made);
            return NULL;
        }
    }
    return made;
}

// Whether a buffer is what an input needs; if not, with the error that says what came instead.
static bool accepts(const array *wanted, const Py_buffer *given, const char *call)
{
    bool typed = kind_of(given->format) == wanted->kind && given->itemsize == wanted->itemsize;
    bool shaped = given->ndim == wanted->rank;
    for (int i = 0; shaped && i < wanted->rank; i++) {
        shaped = given->shape[i] == wanted->shape[i];
    }
    if (typed && shaped && PyBuffer_IsContiguous(given, 'C')) {
        return true;
    }
    PyObject *needed = shape_of(wanted->rank, wanted->shape);
    PyObject *came = shape_of(given->ndim, given->shape);
    PyObject *items = items_of(given);
    if (needed == NULL || came == NULL || items == NULL) {
        // the error is that of the memory
    } else if (!typed) {
        PyErr_Format(PyExc_TypeError,
                     "%s.%s: %s is an array of %s with shape %S; got %S with shape %S", SH_NAME,
                     call, wanted->name, wanted->dtype, needed, items, came);
    } else if (!shaped) {
        PyErr_Format(PyExc_ValueError, "%s.%s: %s is an array of %s with shape %S; got shape %S",
                     SH_NAME, call, wanted->name, wanted->dtype, needed, came);
    } else {
        PyErr_Format(
            PyExc_ValueError,
            "%s.%s: %s is an array of %s with shape %S, one item after the other; this one "
            "is not C-contiguous, and numpy.ascontiguousarray makes a copy that is",
            SH_NAME, call, wanted->name, wanted->dtype, needed);
    }
    Py_DecRef(needed);
    Py_DecRef(came);
    Py_DecRef(items);
    return false;
}

static bool take(const array *wanted, PyObject *given, Py_buffer *view, const char *call)
{
    if (PyObject_GetBuffer(given, view, PyBUF_FULL_RO) == 0) {
        return accepts(wanted, view, call);
    }
    view->obj = NULL;
    if (PyErr_ExceptionMatches(PyExc_TypeError) || PyErr_ExceptionMatches(PyExc_ValueError) ||
        PyErr_ExceptionMatches(PyExc_BufferError)) {
        PyErr_Clear();
        PyObject *needed = shape_of(wanted->rank, wanted->shape);
        PyObject *type = PyObject_Type(given);
        if (needed != NULL && type != NULL) {
            PyErr_Format(PyExc_TypeError, "%s.%s: %s is an array of %s with shape %S; got %S",
                         SH_NAME, call, wanted->name, wanted->dtype, needed, type);
        }
        Py_DecRef(needed);
        Py_DecRef(type);
    }
    return false;
}

// Arrays for the outputs, and where their bytes are.
static bool make(const state *own, PyObject **made, Py_buffer *views)
{
    for (int i = 0; i < SH_OUTPUT_COUNT; i++) {
        made[i] = PyObject_Call(own->empty, own->made_of[i], NULL);
        if (made[i] == NULL || PyObject_GetBuffer(made[i], &views[i], PyBUF_WRITABLE) != 0) {
            return false;
        }
    }
    return true;
}

static void release(int count, Py_buffer *views)
{
    for (int i = 0; i < count; i++) {
        if (views[i].obj != NULL) {
            PyBuffer_Release(&views[i]);
        }
    }
}

// The one output, or a tuple of all; takes the references, and leaves NULL in their place.
static PyObject *result(PyObject **made)
{
    PyObject *all = made[0];
    if (SH_OUTPUT_COUNT == 1) {
        made[0] = NULL;
        return all;
    }
    all = PyTuple_New(SH_OUTPUT_COUNT);
    for (int i = 0; all != NULL && i < SH_OUTPUT_COUNT; i++) {
        PyObject *one = made[i];
        made[i] = NULL;
        (void)PyTuple_SetItem(all, i, one);
    }
    return all;
}

// `is_last`: whether the next call completes the outputs. `compute`: what the model computes,
// between the copies of its inputs and, behind the last call, of its outputs.
#define COPY_IN(index, to) memcpy(to, given[index].buf, (size_t)given[index].len);
#define COPY_OUT(index, from) memcpy(views[index].buf, from, (size_t)views[index].len);
#ifdef SH_ROWS
#define CALL "push"
static bool is_last(void)
{
    return arrived + 1 == SH_ROWS;
}

static void compute(const Py_buffer *given, Py_buffer *views)
{
    bool last = is_last();
    SH_PUSH(given[0].buf);
    arrived = last ? 0 : arrived + 1;
    if (last) {
        SH_EACH_OUTPUT(COPY_OUT)
    }
}
#else
#define CALL "run"
static bool is_last(void)
{
    return true;
}

static void compute(const Py_buffer *given, Py_buffer *views)
{
    SH_EACH_INPUT(COPY_IN)
    SH_RUN();
    SH_EACH_OUTPUT(COPY_OUT)
}
#endif

static PyObject *infer(PyObject *module, PyObject *const *arrays, Py_ssize_t count)
{
    if (count != SH_INPUT_COUNT) {
        return PyErr_Format(PyExc_TypeError, "%s.%s: the model has %d input%s, %zd were given",
                            SH_NAME, CALL, SH_INPUT_COUNT, SH_INPUT_COUNT == 1 ? "" : "s", count);
    }
    Py_buffer given[SH_INPUT_COUNT] = {{0}};
    Py_buffer views[SH_OUTPUT_COUNT] = {{0}};
    PyObject *made[SH_OUTPUT_COUNT] = {NULL};
    PyObject *found = NULL;
    bool ready = true;
    for (int i = 0; ready && i < SH_INPUT_COUNT; i++) {
        ready = take(&inputs[i], arrays[i], &given[i], CALL);
    }
    if (ready && begin()) {
        bool last = is_last();
        bool done = !last || make(PyModule_GetState(module), made, views);
        if (done) {
            PyThreadState *thread = PyEval_SaveThread();
            compute(given, views);
            PyEval_RestoreThread(thread);
        }
        end();
        if (done && last) {
            found = result(made);
        } else if (done) {
            found = Py_None;
            Py_IncRef(found);
        }
    }
    release(SH_INPUT_COUNT, given);
    release(SH_OUTPUT_COUNT, views);
    for (int i = 0; i < SH_OUTPUT_COUNT; i++) {
        Py_DecRef(made[i]);
    }
    return found;
}

#if defined(SH_RESET) || defined(SH_RESTART)
static PyObject *forget(void (*function)(void))
{
    if (!begin()) {
        return NULL;
    }
#ifdef SH_ROWS
    arrived = 0;
#endif
    function();
    end();
    Py_IncRef(Py_None);
    return Py_None;
}
#endif

#ifdef SH_RESET
static PyObject *reset(PyObject *module, PyObject *none)
{
    (void)module;
    (void)none;
    return forget(SH_RESET);
}
#endif

#ifdef SH_RESTART
static PyObject *restart(PyObject *module, PyObject *none)
{
    (void)module;
    (void)none;
    return forget(SH_RESTART);
}
#endif

static int execute(PyObject *module)
{
    state *own = PyModule_GetState(module);
    PyObject *numpy = PyImport_ImportModule("numpy");
    if (numpy == NULL) {
        return -1;
    }
    own->empty = PyObject_GetAttrString(numpy, "empty");
    PyObject *dtype = PyObject_GetAttrString(numpy, "dtype");
    Py_DecRef(numpy);
    bool ready = own->empty != NULL && dtype != NULL;
    for (int i = 0; ready && i < SH_OUTPUT_COUNT; i++) {
        PyObject *shape = shape_of(outputs[i].rank, outputs[i].shape);
        PyObject *type = PyObject_CallFunction(dtype, "s", outputs[i].dtype);
        ready = shape != NULL && type != NULL;
        own->made_of[i] = ready ? Py_BuildValue("(OO)", shape, type) : NULL;
        ready = own->made_of[i] != NULL;
        Py_DecRef(shape);
        Py_DecRef(type);
    }
    Py_DecRef(dtype);
    return ready ? 0 : -1;
}

static void freed(void *module)
{
    state *own = PyModule_GetState(module);
    if (own != NULL) {
        Py_DecRef(own->empty);
        for (int i = 0; i < SH_OUTPUT_COUNT; i++) {
            Py_DecRef(own->made_of[i]);
        }
    }
}

static PyMethodDef functions[] = {
    {CALL, (PyCFunction)(void (*)(void))infer, METH_FASTCALL, SH_ABOUT},
#ifdef SH_RESET
    {"reset", reset, METH_NOARGS, SH_ABOUT_RESET},
#endif
#ifdef SH_RESTART
    {"restart", restart, METH_NOARGS, SH_ABOUT_RESTART},
#endif
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {{Py_mod_exec, (void *)(uintptr_t)execute}, {0, NULL}};

static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,  .m_name = "_native", .m_size = sizeof(state),
    .m_methods = functions, .m_slots = slots,    .m_free = freed,
};

SH_EXPORT PyObject *PyInit__native(void);

// What the processor has to have, by its bits in a word that Linux tells. A kernel would be killed
// by its first instruction otherwise.
#if defined(__ARM_FEATURE_MATMUL_INT8)
#define TOLD 26            // AT_HWCAP2
#define NEEDED (1ul << 13) // HWCAP2_I8MM
#define NEEDS                                                                                      \
    "this wheel is for a Cortex-A710 and cores like it, and this processor has no matrix "         \
    "products of int8; make one with --cpu cortex-a76"
#elif defined(__ARM_FEATURE_DOTPROD)
#define NEEDED (1ul << 20) // HWCAP_ASIMDDP
#define NEEDS                                                                                      \
    "this wheel is for a Cortex-A76, as of a Raspberry Pi 5, and this processor has no dot "       \
    "product; make one with --cpu cortex-a72"
#elif defined(__ARM_NEON) && !defined(__aarch64__)
#define NEEDED (1ul << 12 | 1ul << 16) // HWCAP_NEON and HWCAP_VFPv4
#define NEEDS                                                                                      \
    "this wheel is for a Cortex-A7, as of a Raspberry Pi 2, and this processor has not both NEON " \
    "and VFPv4; make one with --cpu arm1176"
#endif

#ifdef NEEDED
#ifndef TOLD
#define TOLD 16 // AT_HWCAP
#endif
unsigned long getauxval(unsigned long type); // of glibc

static const char *lacking(void)
{
    return (getauxval(TOLD) & NEEDED) == NEEDED ? NULL : NEEDS;
}
#else
static const char *lacking(void)
{
    return NULL;
}
#endif

SH_EXPORT PyObject *PyInit__native(void)
{
    const char *lacks = lacking();
    if (lacks != NULL) {
        return PyErr_Format(PyExc_ImportError, "%s", lacks);
    }
    return PyModuleDef_Init(&definition);
}
