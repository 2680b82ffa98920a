/* SPDX-License-Identifier: Apache-2.0 */
/* A plug-in built for another version of the interface. */
#include <tenon/plugin.h>

extern const tn_plugin tn_plugin_info TN_API;
const tn_plugin tn_plugin_info = {.api = TN_PLUGIN_API + 1, .size = 8};
