// SPDX-License-Identifier: 0BSD
// Features of sound as MLPerf Tiny's streaming wake word wants them (benchmark/training/
// streaming_wakeword of mlcommons/tiny): pre-emphasis, a Hamming window, the power spectrum, 40
// bands of mel, decibels. The FFT of real samples is that of half as many complex ones (Sorensen et
// al., Real-valued fast Fourier transform algorithms, IEEE ASSP 35(6), 1987).
#include "sound.h"

#include "fmt.h"
#include "sh_app.h"
#include "sound_tables.h"

#define HALF (POINTS / 2u)
#define EMPHASIS 0.96875f // 1 - 2^-5
#define LEAST 1e-30f      // of a band, before its logarithm
#define OFFSET_DB 52.0f
#define RANGE_DB 64.0f

_Static_assert(POINTS == 2u * SH_SOUND_CHUNK, "a step is half of a window");
_Static_assert(SH_APP_SOUND_WINDOW % BANDS == 0, "the input holds whole vectors of features");

static int16_t samples[POINTS];
static float before; // the sample in front of them
static float work[POINTS];
static float power[BANDS];
static int8_t features[SH_APP_SOUND_WINDOW];
static int8_t activations[ACTIVATIONS];
static uint32_t steps; // since the start
static bool started;

void sh_sound_reset(void)
{
    for (uint32_t i = 0; i < POINTS; i++) {
        samples[i] = 0;
    }
    for (uint32_t i = 0; i < SH_APP_SOUND_WINDOW; i++) {
        features[i] = 0;
    }
    before = 0.0f;
    steps = 0;
}

int16_t *sh_sound_next(void)
{
    before = (float)samples[SH_SOUND_CHUNK - 1u] / 32768.0f;
    for (uint32_t i = 0; i < SH_SOUND_CHUNK; i++) {
        samples[i] = samples[SH_SOUND_CHUNK + i];
    }
    return samples + SH_SOUND_CHUNK;
}

// sin(2 pi k / POINTS) for k below HALF.
static float sine_at(uint32_t k)
{
    return k <= POINTS / 4u ? sine[k] : sine[HALF - k];
}

static float cosine_at(uint32_t k)
{
    return k <= POINTS / 4u ? sine[POINTS / 4u - k] : -sine[k - POINTS / 4u];
}

// The windowed samples, in the order of reversed bits of half their index: pairs are the complex
// numbers of the FFT.
static void emphasised(void)
{
    float last = before;
    uint32_t reversed = 0;
    for (uint32_t i = 0; i < POINTS; i++) {
        float now = (float)samples[i] / 32768.0f;
        float difference = now - EMPHASIS * last;
        work[2u * reversed + i % 2u] = difference * hamming[i < HALF ? i : POINTS - 1u - i];
        last = now;
        if (i % 2u != 0) { // the next number, counted from its highest bit
            uint32_t bit = HALF / 2u;
            for (; (reversed & bit) != 0; bit >>= 1) {
                reversed ^= bit;
            }
            reversed |= bit;
        }
    }
}

static void fft(void)
{
    for (uint32_t span = 1; span < HALF; span *= 2u) {
        for (uint32_t k = 0; k < span; k++) {
            float c = cosine_at(k * (HALF / span));
            float s = -sine_at(k * (HALF / span));
            for (uint32_t i = k; i < HALF; i += 2u * span) {
                float *a = work + 2u * i;
                float *b = a + 2u * span;
                float real = c * b[0] - s * b[1];
                float imaginary = c * b[1] + s * b[0];
                b[0] = a[0] - real;
                b[1] = a[1] - imaginary;
                a[0] += real;
                a[1] += imaginary;
            }
        }
    }
}

// |X[k]|^2 / POINTS of the real samples, from the FFT of the pairs; 0 < k < HALF.
static float power_at(uint32_t k)
{
    const float *a = work + 2u * k;
    const float *b = work + 2u * (HALF - k);
    float even_real = 0.5f * (a[0] + b[0]);
    float even_imaginary = 0.5f * (a[1] - b[1]);
    float odd_real = 0.5f * (a[1] + b[1]);
    float odd_imaginary = 0.5f * (b[0] - a[0]);
    float c = cosine_at(k);
    float s = sine_at(k);
    float real = even_real + (c * odd_real + s * odd_imaginary);
    float imaginary = even_imaginary + (c * odd_imaginary - s * odd_real);
    return (real * real + imaginary * imaginary) * (1.0f / (float)POINTS);
}

// Each bin rises in one band and falls in the band below it.
static void in_bands(void)
{
    for (uint32_t band = 0; band < BANDS; band++) {
        power[band] = 0.0f;
    }
    for (uint32_t band = 0; band <= BANDS; band++) {
        for (uint32_t k = band_begin[band]; k < band_begin[band + 1u]; k++) {
            float bin = power_at(k);
            if (band < BANDS) {
                power[band] += rise[k] * bin;
            }
            if (band > 0) {
                power[band - 1u] += (1.0f - rise[k]) * bin;
            }
        }
    }
}

// 10 log10(x) of a positive normal number, to seven digits: with x = m 2^e, m around 1, log(m) is
// 2 artanh((m - 1) / (m + 1)).
static float decibels(float x)
{
    union {
        float real;
        uint32_t bits;
    } view = {.real = x};
    int32_t exponent = (int32_t)(view.bits >> 23) - 127;
    view.bits = (view.bits & 0x7FFFFFu) | 0x3F800000u;
    if (view.real > 1.41421356f) {
        view.real *= 0.5f;
        exponent++;
    }
    float s = (view.real - 1.0f) / (view.real + 1.0f);
    float square = s * s;
    float series = square * (1.0f / 7.0f + square * (1.0f / 9.0f));
    series = 1.0f + square * (1.0f / 3.0f + square * (1.0f / 5.0f) + square * series);
    return 3.01029996f * (float)exponent + 8.68588964f * s * series;
}

// As the reference firmware does: cut towards zero; here what int8 does not hold saturates.
static int8_t stored(float value, const sh_app_tensor *input)
{
    float level = value / input->scale + (float)input->zero_point;
    return level >= 127.0f ? INT8_MAX : (int8_t)level;
}

void sh_sound_listen(void)
{
    sh_app_tensor input = sh_app_input(0);
    emphasised();
    fft();
    in_bands();
    for (uint32_t i = 0; i < SH_APP_SOUND_WINDOW - BANDS; i++) {
        features[i] = features[i + BANDS];
    }
    for (uint32_t band = 0; band < BANDS; band++) {
        float loud = power[band] > LEAST ? power[band] : LEAST;
        float value = (decibels(loud) + OFFSET_DB) * (1.0f / RANGE_DB);
        float kept = value < 0.0f ? 0.0f : (value > 1.0f ? 1.0f : value);
        features[SH_APP_SOUND_WINDOW - BANDS + band] = stored(kept, &input);
    }
    for (uint32_t i = 0; i < SH_APP_SOUND_WINDOW; i++) {
        ((int8_t *)input.data)[i] = features[i];
    }
}

bool sh_sound_heard(void)
{
    int8_t word = ((const int8_t *)sh_app_output(0).data)[SH_APP_SOUND_WORD];
    if (started && steps < ACTIVATIONS) {
        activations[steps++] = word;
    }
    return word > SH_APP_SOUND_ABOVE;
}

static void print_values(const int8_t *values, uint32_t count)
{
    sh_print("[");
    for (uint32_t i = 0; i < count; i++) {
        sh_print_with(i == 0 ? "" : (i % 16u == 0 ? ",\r\n" : ", "), values[i], "");
    }
    sh_print("]\r\n");
}

void sh_sound_start(void)
{
    sh_sound_reset();
    started = true;
    sh_print("Listening: load samples and send extract_uart_stream\r\n");
}

void sh_sound_stop(void)
{
    if (!started) {
        sh_print("Not listening.\r\n");
        return;
    }
    started = false;
    sh_print("Streaming stopped.\r\ntarget activations: \r\n");
    print_values(activations, steps);
}

void sh_sound_print(void)
{
    sh_print("m-features-");
    print_values(features + SH_APP_SOUND_WINDOW - BANDS, BANDS);
    sh_print("m-activations-");
    print_values(sh_app_output(0).data, sh_app_output(0).bytes);
}
