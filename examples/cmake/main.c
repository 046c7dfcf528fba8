// SPDX-License-Identifier: 0BSD
// Reads a picture of 8x8 characters and prints the digit that the model sees in it.
#include <stdio.h>
#include <string.h>

#include "digits.h"

static const char shades[] = " .:-=+*#@"; // from paper to ink

// Writes the picture into the model's input. Returns 0, or -1 if the file is too short.
static int read_picture(FILE *file, int8_t *input)
{
    char line[128];
    for (int y = 0; y < 8; y++) {
        if (fgets(line, sizeof line, file) == NULL) {
            return -1;
        }
        line[strcspn(line, "\r\n")] = '\0';
        const size_t width = strlen(line);
        for (size_t x = 0; x < 8; x++) {
            const char *shade = strchr(shades, x < width ? line[x] : ' ');
            const int ink = shade == NULL ? 0 : (int)(shade - shades);
            // Ink of 0 to 1 is stored as its 255 parts, less 128: the scale and the zero point of
            // digits.h.
            input[8 * y + (int)x] = (int8_t)(ink * 255 / 8 + DIGITS_INPUT_ZERO_POINT);
        }
    }
    return 0;
}

int main(int count, char **words)
{
    if (count != 2) {
        fprintf(stderr, "usage: read_digit PICTURE\n");
        return 2;
    }
    FILE *file = fopen(words[1], "r");
    if (file == NULL || read_picture(file, digits_input()) != 0) {
        fprintf(stderr, "%s: cannot be read as 8 lines of 8 characters\n", words[1]);
        return 1;
    }
    fclose(file);
    digits_run();
    const int8_t *scores = digits_output();
    int best = 0;
    for (int i = 1; i < DIGITS_OUTPUT_ELEMENTS; i++) {
        best = scores[i] > scores[best] ? i : best;
    }
    printf("%d\n", best);
    return 0;
}
