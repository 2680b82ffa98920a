/* SPDX-License-Identifier: Apache-2.0 */
/* What a model format is: the table formats.def names them, each folder fills a FormatDesc. */
#ifndef TENON_FORMATS_FORMATS_H
#define TENON_FORMATS_FORMATS_H

#include "ir/ir.h"

typedef struct FormatDesc {
    const char *name;      /* "onnx" */
    const char *extension; /* ".onnx" */
    const char *summary;   /* one line for people */
    /* Whether bytes look like this format: cheap, never fails. Formats are asked in the table's order. */
    bool (*probe)(const uint8_t *data, size_t size);
    /* `path` is for messages and may be NULL (from memory); files that belong to the model are looked for beneath
       `folder` (NULL: refused). Keeps `bytes` (takes its own reference) as long as constants point into it. */
    tn_status (*read)(Context *ctx, Buffer *bytes, const char *path, const char *folder, Model **out);
    tn_status (*write)(const Model *model, const char *path); /* NULL: cannot be written */
} FormatDesc;

#endif
