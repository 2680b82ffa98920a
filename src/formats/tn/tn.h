/* SPDX-License-Identifier: Apache-2.0 */
/* The saved form: NAME.tn, the IR as text, and NAME.safetensors beside it for the large constants. */
#ifndef TENON_FORMATS_TN_TN_H
#define TENON_FORMATS_TN_TN_H

#include "formats/formats.h"

/* Blanks and comments, then `tn` and a number. */
bool tn_format_probe(const uint8_t *data, size_t size);
/* Parses, reads constants beneath `folder`, infers types. Weights are mapped and not read. */
tn_status tn_format_read(Context *ctx, Buffer *bytes, const char *path, const char *folder, Model **out);
/* Where weights lie that were packed for some processor's kernels: NAME.tn -> NAME.packed.safetensors. False for other
   names. */
bool tn_packed_path(const char *path, char *out, size_t size);
/* Weights first, then the text; each appears complete or not at all. What was packed of others goes away. */
tn_status tn_format_write(const Model *model, const char *path);

extern const FormatDesc format_tn;

#endif
