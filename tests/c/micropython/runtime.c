// Runs a module of ours without MicroPython. Arguments are calls, such as `run <64 >10`: the
// function, then its arguments. `<N` is N bytes of stdin in a bytes object, `f4` an array of
// typecode f in 4 bytes, `>N` a bytearray, `s4` a str, `#7` an int, `(`, `)` are around a tuple.
// What a call gives is written to stdout if it is bytes, in words to stderr otherwise. `*` calls
// the next one as long as stdin has bytes, `!` calls it once more while it runs.
#include "py/mphal.h"
#include "py/obj.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const mp_obj_type_t mp_type_tuple = {"tuple"}, mp_type_list = {"list"}, mp_type_module = {"module"};
const mp_obj_type_t mp_type_ValueError = {"ValueError"}, mp_type_RuntimeError = {"RuntimeError"};
static const mp_obj_type_t buffer_type = {"buffer"}, str_type = {"str"}, int_type = {"int"};
static const mp_obj_type_t float_type = {"float"}, none_type = {"None"};
static struct obj none = {&none_type, 0, false, 0, NULL, 0};
const mp_obj_t mp_const_none = &none;
byte *root_pointer;
static jmp_buf raised;
static size_t allocated;

void *taken(size_t bytes)
{
    allocated++;
    return calloc(1, bytes ? bytes : 1);
}

void given_back(void *place)
{
    free(place);
}

static mp_obj_t made(const mp_obj_type_t *type)
{
    mp_obj_t object = taken(sizeof(struct obj));
    object->type = type;
    return object;
}

static mp_obj_t buffer(int typecode, bool writable, size_t len)
{
    mp_obj_t object = made(&buffer_type);
    object->typecode = typecode;
    object->writable = writable;
    object->len = len;
    object->data = taken(len);
    return object;
}

bool mp_obj_is_str(mp_obj_t object)
{
    return object->type == &str_type;
}

bool mp_obj_is_type(mp_obj_t object, const mp_obj_type_t *type)
{
    return object->type == type;
}

bool mp_get_buffer(mp_obj_t object, mp_buffer_info_t *found, mp_uint_t flags)
{
    if (object->typecode == 0 || (flags == MP_BUFFER_WRITE && !object->writable)) {
        return false;
    }
    *found = (mp_buffer_info_t){object->data, object->len, object->typecode};
    return true;
}

void mp_obj_get_array(mp_obj_t object, size_t *count, mp_obj_t **objects)
{
    *count = object->len;
    *objects = object->data;
}

mp_int_t mp_obj_get_int(mp_obj_t object)
{
    return (mp_int_t)object->len;
}

mp_obj_t mp_obj_new_int(mp_int_t value)
{
    mp_obj_t object = made(&int_type);
    object->len = (size_t)value;
    return object;
}

mp_obj_t mp_obj_new_float(mp_float_t value)
{
    mp_obj_t object = made(&float_type);
    object->number = value;
    return object;
}

mp_obj_t mp_obj_new_str(const char *text, size_t len)
{
    mp_obj_t object = buffer('B', false, len + 1);
    memcpy(object->data, text, len);
    object->type = &str_type;
    object->len = len;
    return object;
}

mp_obj_t mp_obj_new_tuple(size_t count, const mp_obj_t *objects)
{
    mp_obj_t object = made(&mp_type_tuple);
    object->len = count;
    object->data = taken(count * sizeof *objects);
    memcpy(object->data, objects, count * sizeof *objects);
    return object;
}

mp_obj_t mp_obj_new_bytes_from_vstr(vstr_t *text)
{
    mp_obj_t object = made(&buffer_type);
    object->typecode = 'B';
    object->len = text->len;
    object->data = text->buf;
    return object;
}

void vstr_init_len(vstr_t *text, size_t len)
{
    *text = (vstr_t){taken(len), len};
}

void mp_raise_msg_varg(const mp_obj_type_t *type, const char *said, ...)
{
    va_list values;
    va_start(values, said);
    fprintf(stderr, "%s: ", type->name);
    vfprintf(stderr, said, values);
    fprintf(stderr, "\n");
    va_end(values);
    longjmp(raised, 1);
}

void mp_raise_msg(const mp_obj_type_t *type, const char *said)
{
    mp_raise_msg_varg(type, "%s", said);
}

void mp_raise_ValueError(const char *said)
{
    mp_raise_msg(&mp_type_ValueError, said);
}

static void show(mp_obj_t object, const char *end)
{
    if (object->type == &int_type) {
        fprintf(stderr, "%ld%s", (long)object->len, end);
    } else if (object->type == &float_type) {
        fprintf(stderr, "%.9g%s", object->number, end);
    } else if (object->type == &mp_type_tuple) {
        mp_obj_t *objects = object->data;
        bool buffers = object->len > 0 && objects[0]->type == &buffer_type;
        fprintf(stderr, "%s", buffers ? "" : "(");
        for (size_t i = 0; i < object->len; i++) {
            show(objects[i], buffers ? "" : " ");
        }
        fprintf(stderr, "%s%s", buffers ? "" : ")", buffers ? "" : end);
    } else if (object->type == &buffer_type) {
        fwrite(object->data, 1, object->len, stdout);
    } else {
        fprintf(stderr, "%s%s", object->type == &str_type ? (char *)object->data : "None", end);
    }
}

static bool ended; // stdin

// The object of an argument, or NULL where it is none.
static mp_obj_t object_of(char **word)
{
    const char *text = *word;
    size_t number = strtoul(text[0] != '\0' ? text + 1 : text, NULL, 10);
    if (text[0] == '<') {
        mp_obj_t object = buffer('B', false, number);
        ended |= fread(object->data, 1, number, stdin) < number;
        return object;
    }
    if (text[0] == '>') {
        return buffer(1, true, number);
    }
    if (text[0] == '#') {
        return mp_obj_new_int((mp_int_t)number);
    }
    if (text[0] == 's' && text[1] >= '0' && text[1] <= '9') {
        return mp_obj_new_str("xxxxxxxxxxxxxxxx", number);
    }
    return text[1] >= '0' && text[1] <= '9' ? buffer(text[0], true, number) : NULL;
}

static char **arguments_of(char **word, mp_obj_t *objects, size_t *count)
{
    for (*count = 0; *word != NULL; word++) {
        if (strcmp(*word, "(") == 0) {
            mp_obj_t inner[32];
            size_t found;
            word = arguments_of(word + 1, inner, &found);
            objects[(*count)++] = mp_obj_new_tuple(found, inner);
        } else if (strcmp(*word, ")") == 0) {
            return word;
        } else if ((objects[*count] = object_of(word)) != NULL) {
            (*count)++;
        } else {
            return word;
        }
    }
    return word;
}

static mp_obj_t called(const char *name, size_t count, const mp_obj_t *objects)
{
    const mp_obj_dict_t *all = registered->globals;
    for (size_t i = 0; i < all->count; i++) {
        const mp_obj_fun_t *function = all->elements[i].value;
        if (strcmp(all->elements[i].key + strlen("MP_QSTR_"), name) == 0) {
            if (count < function->least || count > function->most) {
                mp_raise_msg(&mp_type_ValueError, "wrong number of arguments");
            }
            return function->none  ? function->none()
                   : function->one ? function->one(objects[0])
                                   : function->some(count, objects);
        }
    }
    mp_raise_msg(&mp_type_ValueError, "no such function");
}

static const char *interrupting; // the function that is called once more while it runs
static size_t interrupting_count;
static mp_obj_t *interrupting_objects;

void interrupted(void)
{
    const char *name = interrupting;
    interrupting = NULL;
    if (name != NULL) {
        jmp_buf outer;
        memcpy(&outer, &raised, sizeof raised);
        if (setjmp(raised) == 0) {
            show(called(name, interrupting_count, interrupting_objects), "\n");
        }
        memcpy(&raised, &outer, sizeof raised);
    }
}

int main(int count, char **word)
{
    (void)count;
    fprintf(stderr, "%s\n", registered_name);
    called("__init__", 0, NULL);
    for (word++; *word != NULL;) {
        bool again = strcmp(*word, "*") == 0;
        bool twice = strcmp(*word, "!") == 0;
        char **const name = word + (again || twice);
        do {
            mp_obj_t objects[4];
            size_t found;
            word = arguments_of(name + 1, objects, &found);
            if (ended && again) {
                break;
            }
            interrupting = twice ? *name : NULL;
            interrupting_count = found;
            interrupting_objects = objects;
            size_t before = allocated;
            if (setjmp(raised) == 0) {
                mp_obj_t result = called(*name, found, objects);
                if (found == 2) {
                    fprintf(stderr, "allocated %zu\n", allocated - before);
                }
                if (result != mp_const_none) {
                    show(result, "\n");
                }
            }
        } while (again);
    }
    return 0;
}
