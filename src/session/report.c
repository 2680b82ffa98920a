/* SPDX-License-Identifier: Apache-2.0 */
/* Reports of passes, as callers see them. */
#include "session/passes_int.h"

_Static_assert((int)TN_PASS_FAILED == (int)PASS_FAILED && (int)TN_PASS_DEBUG == (int)PASS_DEBUG &&
                   (int)TN_POST_PARTITION == (int)PHASE_POST_PARTITION &&
                   (int)TN_PRINT_ON_FAILURE == (int)PRINT_ON_FAILURE,
               "they are numbered alike");
_Static_assert(sizeof(tn_pass_count) == sizeof(PassCount), "counts are handed out as they are");

void public_record(const PassRecord *r, tn_pass_record *out) {
    *out = (tn_pass_record){.pass = r->pass ? r->pass->name : "",
                            .text = r->text.s,
                            .phase = (tn_phase)r->phase,
                            .depth = r->depth,
                            .number = r->number,
                            .outcome = (tn_pass_outcome)r->outcome,
                            .why = r->why.s ? r->why.s : "",
                            .changed = r->changed,
                            .nanoseconds = r->nanoseconds,
                            .nodes_before = r->nodes_before,
                            .nodes_after = r->nodes_after,
                            .bytes = r->bytes,
                            .first_change = r->first_change,
                            .n_changes = r->n_changes,
                            .last_change = r->last_change,
                            .counts = (const tn_pass_count *)r->counts.data,
                            .n_counts = r->counts.len};
}

size_t tn_pass_report_size(const tn_pass_report *report) { return report ? report->manager.records.len : 0; }

tn_status tn_pass_report_at(const tn_pass_report *report, size_t i, tn_pass_record *record) {
    if (!report || !record) return fail(TN_INVALID_ARGUMENT, "report or record is NULL");
    if (i >= report->manager.records.len) return fail(TN_OUT_OF_RANGE, "the report has no line %zu", i);
    public_record(&report->manager.records.data[i], record);
    return TN_OK;
}

void tn_pass_report_release(tn_pass_report *report) {
    if (!report) return;
    Context *ctx = report->ctx;
    manager_free(&report->manager);
    mem_free(&ctx->allocator, report, sizeof *report);
    context_unref(ctx);
}
