#include "obj.h"
