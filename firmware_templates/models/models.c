// SPDX-License-Identifier: 0BSD
// Several models in one firmware: which of them requests are about (app_config.h selects by it).
#include "app_config.h"

uint8_t sh_app_model;
