// SPDX-License-Identifier: 0BSD
// Inferences for the text protocol, and their results. An inference may overwrite the model's
// input, so only the first one after loading computes on the host's bytes: its results are printed.
#ifndef SH_RESULTS_H
#define SH_RESULTS_H

// Forgets all results: the input is new.
void sh_results_forget(void);

// Puts the db buffer into the model's input, before a series of inferences.
void sh_results_load(void);

// One inference.
void sh_results_infer(void);

// The line m-results-[...], each value as "%0.3f".
void sh_results_print(void);

#endif
