// As much of MicroPython's objects as a module of ours uses, for tests without its source: see
// runtime.c.
#ifndef PY_OBJ_H
#define PY_OBJ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef unsigned char byte;
typedef intptr_t mp_int_t;
typedef uintptr_t mp_uint_t;
typedef double mp_float_t;
typedef struct {
    const char *name;
} mp_obj_type_t;
typedef struct obj *mp_obj_t;
struct obj {
    const mp_obj_type_t *type;
    int typecode;      // of a buffer; 0: the object is none
    bool writable;     // buffer
    size_t len;        // bytes of a buffer, objects of a tuple, value of an int
    void *data;        // of a buffer or tuple
    mp_float_t number; // value of a float
};
typedef struct {
    void *buf;
    size_t len;
    int typecode;
} mp_buffer_info_t;
typedef struct {
    char *buf;
    size_t len;
} vstr_t;
typedef struct {
    const char *key;
    const void *value;
} mp_rom_map_elem_t;
typedef struct {
    const mp_rom_map_elem_t *elements;
    size_t count;
} mp_obj_dict_t;
typedef struct {
    const mp_obj_type_t *type;
} mp_obj_base_t;
typedef struct {
    mp_obj_base_t base;
    mp_obj_dict_t *globals;
} mp_obj_module_t;
typedef struct {
    size_t least;
    size_t most;
    mp_obj_t (*none)(void);
    mp_obj_t (*one)(mp_obj_t);
    mp_obj_t (*some)(size_t, const mp_obj_t *);
} mp_obj_fun_t;

extern const mp_obj_type_t mp_type_tuple, mp_type_list, mp_type_ValueError, mp_type_RuntimeError,
    mp_type_module;
extern const mp_obj_t mp_const_none;
extern byte *root_pointer;
extern const char *const registered_name;
extern const mp_obj_module_t *const registered;

#define MP_BUFFER_READ 1
#define MP_BUFFER_WRITE 2
#define MICROPY_PY_BUILTINS_FLOAT 1
#define MICROPY_MODULE_BUILTIN_INIT 1
#define MP_ERROR_TEXT(text) text
#define MP_ROM_QSTR(name) #name
#define MP_ROM_PTR(place) place
#define MP_STATE_VM(name) root_pointer
#define MP_REGISTER_ROOT_POINTER(declaration) extern byte *root_pointer
#define MP_REGISTER_MODULE(name, module)                                                           \
    const char *const registered_name = #name;                                                     \
    const mp_obj_module_t *const registered = &module
#define MP_DEFINE_CONST_DICT(name, table)                                                          \
    const mp_obj_dict_t name = {table, sizeof(table) / sizeof(table[0])}
#define MP_DEFINE_CONST_FUN_OBJ_0(name, function)                                                  \
    const mp_obj_fun_t name = {0, 0, function, NULL, NULL}
#define MP_DEFINE_CONST_FUN_OBJ_1(name, function)                                                  \
    const mp_obj_fun_t name = {1, 1, NULL, function, NULL}
#define MP_DEFINE_CONST_FUN_OBJ_VAR_BETWEEN(name, least, most, function)                           \
    const mp_obj_fun_t name = {least, most, NULL, NULL, function}
#define m_new(type, count) ((type *)taken(sizeof(type) * (count)))
#define m_del(type, place, count) given_back(place)

void *taken(size_t bytes);
void given_back(void *place);
bool mp_obj_is_str(mp_obj_t object);
bool mp_obj_is_type(mp_obj_t object, const mp_obj_type_t *type);
bool mp_get_buffer(mp_obj_t object, mp_buffer_info_t *buffer, mp_uint_t flags);
void mp_obj_get_array(mp_obj_t object, size_t *count, mp_obj_t **objects);
mp_int_t mp_obj_get_int(mp_obj_t object);
mp_obj_t mp_obj_new_int(mp_int_t value);
mp_obj_t mp_obj_new_float(mp_float_t value);
mp_obj_t mp_obj_new_str(const char *text, size_t len);
mp_obj_t mp_obj_new_tuple(size_t count, const mp_obj_t *objects);
mp_obj_t mp_obj_new_bytes_from_vstr(vstr_t *text);
void vstr_init_len(vstr_t *text, size_t len);
_Noreturn void mp_raise_ValueError(const char *said);
_Noreturn void mp_raise_msg(const mp_obj_type_t *type, const char *said);
_Noreturn void mp_raise_msg_varg(const mp_obj_type_t *type, const char *said, ...)
    __attribute__((format(printf, 2, 3)));

#endif
