/* SPDX-License-Identifier: Apache-2.0 */
/* Another plug-in by the name of examples/plugin/print_calls.c. */
#include <tenon/plugin.h>

TN_PLUGIN("print_calls");
