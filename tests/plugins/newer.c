/* SPDX-License-Identifier: Apache-2.0 */
/* A plug-in built with a later header, whose struct is longer, that uses what is new there. */
#include <tenon/plugin.h>

typedef struct Longer {
    tn_plugin plugin;
    const void *const *rules;
} Longer;

static const void *const rule = "a rule";
extern const Longer tn_plugin_info TN_API;
const Longer tn_plugin_info = {{.api = TN_PLUGIN_API, .size = sizeof(Longer), .name = "newer", .engine = tn_version},
                               &rule};
