/* SPDX-License-Identifier: Apache-2.0 */
/* Where text goes that passes and instruments write. */
#include "pass/pass_int.h"

tn_status write_text(const Allocator *a, const char *path, const Text *text) {
    FileWriter *writer;
    TRY(text->status);
    TRY(file_writer_open(a, path, &writer));
    tn_status status = file_writer_write(writer, text->s ? text->s : "", text->n);
    if (status == TN_OK) return file_writer_commit(writer);
    file_writer_abort(writer);
    return status;
}

tn_status pass_say(PassRun *run, const Text *text, Str file) {
    TRY(text->status);
    if (file.n) {
        const char *path = arena_strndup(run->scratch, file.s, file.n);
        return path ? write_text(&run->ctx->allocator, path, text) : TN_OUT_OF_MEMORY;
    }
    for (size_t from = 0, to; from < text->n; from = to + 1) {
        const char *end = memchr(text->s + from, '\n', text->n - from);
        to = end ? (size_t)(end - text->s) : text->n;
        log_message(run->ctx, TN_LOG_INFO, "%.*s", (int)(to - from), text->s + from);
    }
    return TN_OK;
}
