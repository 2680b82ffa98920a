/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the model before and after passes: a folder of numbered files that can be compared one with the next. */
#include "pass/pass_int.h"

#include <errno.h>
#include <sys/stat.h>

static bool is_wanted(const PrintInstrument *p, const Pass *pass) {
    for (size_t i = 0; i < p->n_passes; i++)
        if (p->passes[i] == pass) return true;
    return p->n_passes == 0;
}

static tn_status make_folder(const char *folder) {
    if (mkdir(folder, 0777) == 0 || errno == EEXIST) return TN_OK;
    return fail(TN_IO, "cannot make the folder \"%s\": %s", folder, strerror(errno));
}

/* 0007_003_fold-constants_after.tn: the seventh file, of the third pass that ran. Large constants are elided. */
static tn_status print_model(PrintInstrument *p, const PassRun *run, const char *when) {
    const Allocator *a = &run->ctx->allocator;
    Text path, text;
    TRY(make_folder(p->folder));
    text_init(&path, a);
    text_init(&text, a);
    text_printf(&path, "%s/%04llu_%03llu_%s_%s.tn", p->folder, (unsigned long long)++p->n_files,
                (unsigned long long)run->manager->records.data[run->record].number, run->pass->name, when);
    tn_status status = model_print(run->model, NULL, &text);
    if (status == TN_OK) status = path.status != TN_OK ? path.status : text.status;
    if (status == TN_OK) status = write_text(a, path.s, &text);
    text_free(&path);
    text_free(&text);
    return status;
}

static tn_status before(Instrument *self, const PassRun *run) {
    PrintInstrument *p = (PrintInstrument *)self;
    return p->when & PRINT_BEFORE && is_wanted(p, run->pass) ? print_model(p, run, "before") : TN_OK;
}

static tn_status after(Instrument *self, const PassRun *run, const PassRecord *record, tn_status status) {
    PrintInstrument *p = (PrintInstrument *)self;
    if (!is_wanted(p, run->pass)) return TN_OK;
    if (status != TN_OK) return p->when & PRINT_ON_FAILURE ? print_model(p, run, "failed") : TN_OK;
    if (p->when & PRINT_AFTER || (p->when & PRINT_ON_CHANGE && record->changed)) return print_model(p, run, "after");
    return TN_OK;
}

void print_instrument(PrintInstrument *out, const char *folder, unsigned when) {
    *out = (PrintInstrument){.base = {.before = before, .after = after}, .folder = folder, .when = when};
}
