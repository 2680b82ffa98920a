/* SPDX-License-Identifier: Apache-2.0 */
/* What the files behind <tenon/plugin.h> share: descriptions from outside, made into the engine's own. */
#ifndef TENON_SESSION_PLUGIN_INT_H
#define TENON_SESSION_PLUGIN_INT_H

#include <tenon/plugin.h>

#include "ops/op.h"
#include "session/passes_int.h"

/* What a struct of the caller's says, which may be of an older version and then be shorter, or of a newer one and then must
   not use what is not known here. `what` names it in messages. */
tn_status plugin_read(void *to, size_t known, const void *from, size_t given, const char *what);
/* NULL stays NULL, and is also what there is without memory. */
const char *plugin_copy(Arena *arena, const char *text);
/* Letters, digits and underscores, with `also` allowed besides. */
bool plugin_is_word(const char *text, const char *also);
/* Around a call-back: nothing said before, and a status that says something after. */
tn_status plugin_answer(tn_status status, const char *what, const char *name);

/* Each on `arena`, with all that it points to. */
tn_status plugin_make_pass(Arena *arena, const tn_pass_desc *desc, const Pass **out);
tn_status plugin_make_op(Arena *arena, const tn_op_desc *desc, const OpSchema **out);
/* `ops` are those that come with it. */
tn_status plugin_make_kernel(Arena *arena, const tn_kernel_desc *desc, const OpSchema *const *ops, size_t n_ops,
                             const KernelDesc **out);

/* A run of an op or a kernel, or a question whether it would match. */
struct tn_call {
    const Node *node;
    int n_in, n_out;
    const Tensor *const *in; /* NULL: absent */
    const Tensor *out;
    KernelCtx *ctx; /* NULL: a question */
    bool dynamic;   /* results may be asked memory for */
};
/* Calls `run` with operands made dense, unless it takes them in any strides. */
tn_status plugin_run(KernelCtx *c, tn_status (*run)(tn_call *call), bool strided, bool dynamic, const char *what,
                     const char *name);

#endif
