/* SPDX-License-Identifier: Apache-2.0 */
/* Proofs: draws instances until enough of them agree or one does not, and makes that one small. */
#include "rewrite/prove_int.h"

#include <math.h>
#include <stdio.h>

/* Tries before it is given up: at first, and for each instance that was found. */
enum { TRIES_AT_FIRST = 4000, TRIES_MORE = 400, USUAL_SIZE = 6 };

/* What an instance is drawn from. */
typedef struct Draw {
    uint64_t seed;
    int turn;
    bool prefer_f32;
    Knobs knobs;
} Draw;

typedef struct Prover {
    Sampler sampler;
    const Rule *rule;
    Context *ctx;
    Matcher *matcher;
    Proof *proof;
    uint64_t seed;
    bool as_found;
    size_t telling;
    size_t unmet[LIST_MAX * 2], not_drawn, not_matched;
    char problem[256];
    Draw last; /* that was drawn but does not match */
    struct {
        bool present[RULE_VALUES], absent[RULE_VALUES]; /* of optional operands */
        uint64_t ops[RULE_NODES];                       /* bit i: alternative i */
    } seen;
} Prover;

static tn_status draw(Prover *p, const Draw *d, bool *drawn) {
    p->sampler.turn = d->turn;
    p->sampler.prefer_f32 = d->prefer_f32;
    return sampler_draw(&p->sampler, d->seed, d->knobs, drawn);
}

static uint64_t mix(uint64_t seed, uint64_t i) {
    Dice dice = {seed ^ i * 0xD6E8FEB86659FD93u};
    return dice_roll(&dice);
}

/* The same on every run, unlike hash_bytes. */
static uint64_t seed_of_name(Str name, uint64_t seed) {
    uint64_t h = 0xCBF29CE484222325u ^ seed;
    for (size_t i = 0; i < name.n; i++) h = (h ^ (unsigned char)name.s[i]) * 0x100000001B3u;
    return h;
}

/* ---- small counterexamples ----------------------------------------------------------------------------------- */

static tn_status is_refuted(Prover *p, const Instance *x, bool *yes) {
    Judgement judgement;
    TRY(instance_judge(p->ctx, x, p->matcher, &judgement, NULL));
    *yes = judgement.verdict == VERDICT_REFUTED;
    return TN_OK;
}

/* Small instances are drawn, and the one with least to read is kept. */
static tn_status find_smaller(Prover *p, Draw *best, int64_t *weight) {
    enum { DRAWS = 250 };
    static const int64_t sizes[] = {1, 2, 3, 5};
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
        for (int i = 0; i < DRAWS; i++) {
            Draw d = {mix(p->seed, (uint64_t)(k * DRAWS + (size_t)i) + 1000000),
                      i,
                      best->prefer_f32,
                      {sizes[k], i < DRAWS * 3 / 4}};
            bool drawn, refuted;
            TRY(draw(p, &d, &drawn));
            if (!drawn || instance_weight(p->sampler.instance) >= *weight) continue;
            TRY(is_refuted(p, p->sampler.instance, &refuted));
            if (!refuted) continue;
            *best = d;
            *weight = instance_weight(p->sampler.instance);
        }
    return TN_OK;
}

static tn_status try_flag(Prover *p, Instance *x, bool *flag, bool want) {
    bool refuted, old = *flag;
    if (old == want) return TN_OK;
    *flag = want;
    TRY(is_refuted(p, x, &refuted));
    if (!refuted) *flag = old;
    return TN_OK;
}

static tn_status plain_leaf(Prover *p, Instance *x, Leaf *leaf) {
    TRY(try_flag(p, x, &leaf->no_shape, false));
    for (int i = 0; i < leaf->data.rank; i++) {
        uint8_t old = leaf->symbol[i];
        bool refuted = true;
        if (!old) continue;
        leaf->symbol[i] = 0;
        TRY(is_refuted(p, x, &refuted));
        if (!refuted) leaf->symbol[i] = old;
    }
    return TN_OK;
}

static tn_status try_number(Prover *p, Instance *x, Tensor *t, int64_t i, double want, bool *taken) {
    double old;
    load_f64(&old, t->dtype, t->data, i, 1, 1);
    *taken = false;
    if (old == want || isnan(want)) return TN_OK;
    store_f64(t->dtype, t->data, i, 1, &want, 1);
    TRY(is_refuted(p, x, taken));
    if (!*taken) store_f64(t->dtype, t->data, i, 1, &old, 1);
    return TN_OK;
}

/* Plain numbers are read more easily. */
static tn_status plain_numbers(Prover *p, Instance *x, int *budget) {
    for (int k = 0; k < x->n_leaves; k++) {
        Tensor *t = &x->leaves[k].data;
        for (int64_t i = 0; dtype_is_float(t->dtype) && i < tensor_count(t) && *budget > 0; i++) {
            double old;
            bool taken = false;
            load_f64(&old, t->dtype, t->data, i, 1, 1);
            const double nicer[] = {0, 1, rint(old), rint(old * 8) / 8};
            for (size_t j = 0; j < sizeof nicer / sizeof *nicer && !taken; j++, --*budget)
                if (fabs(old) > 1e-3) TRY(try_number(p, x, t, i, nicer[j], &taken));
        }
    }
    return TN_OK;
}

static tn_status make_plain(Prover *p, Instance *x) {
    int budget = 600;
    TRY(try_flag(p, x, &x->constants_first, true));
    for (int v = 0; v < x->n_values; v++) {
        TRY(try_flag(p, x, &x->reread[v], false));
        TRY(try_flag(p, x, &x->output[v], false));
    }
    for (int i = 0; i < x->n_leaves; i++) TRY(plain_leaf(p, x, &x->leaves[i]));
    return plain_numbers(p, x, &budget);
}

/* ---- printing ------------------------------------------------------------------------------------------------ */

static void put_comment(Text *out, const char *text) {
    for (const char *line = text; *line;) {
        size_t n = strcspn(line, "\n");
        text_puts(out, "# ");
        text_put(out, line, n);
        text_puts(out, "\n");
        line += n + (line[n] == '\n');
    }
}

static tn_status set_presets(const Instance *x, Model *model) {
    size_t i = 0;
    for (int v = 0; v < x->n_values; v++) {
        const Leaf *leaf = x->values[v].leaf >= 0 ? &x->leaves[x->values[v].leaf] : NULL;
        Tensor *preset;
        if (!leaf || leaf->constant) continue;
        TRY(model_tensor(model, &preset));
        *preset = leaf->data;
        buffer_ref(preset->buffer);
        TRY(graph_set_input_default(model->main, i++, preset));
    }
    return TN_OK;
}

static tn_status print_instance(Context *ctx, const Instance *x, Text *out) {
    Model *model;
    TRY(instance_model(ctx, x, &model, NULL));
    tn_status status = set_presets(x, model);
    if (status == TN_OK) status = model_print(model, &(PrintOptions){.inline_elements = 4096}, out);
    model_free(model);
    return status;
}

static tn_status print_counterexample(Prover *p, const Instance *x) {
    Text *out = &p->proof->counterexample, rewritten;
    Judgement judgement;
    text_init(&rewritten, &p->ctx->allocator);
    tn_status status = instance_judge(p->ctx, x, p->matcher, &judgement, &rewritten);
    if (status == TN_OK && judgement.verdict == VERDICT_REFUTED)
        snprintf(p->proof->why, sizeof p->proof->why, "%s", judgement.why);
    text_printf(out, "# %s: %s\n", p->rule->name.s, p->proof->why);
    if (rewritten.n) put_comment(out, "What the rule makes of it:");
    if (status == TN_OK && rewritten.n) put_comment(out, rewritten.s);
    text_free(&rewritten);
    if (status == TN_OK) status = print_instance(p->ctx, x, out);
    return status == TN_OK ? out->status : status;
}

static tn_status refute(Prover *p, Draw found, const Judgement *judgement) {
    bool drawn;
    p->proof->outcome = PROOF_REFUTED;
    snprintf(p->proof->why, sizeof p->proof->why, "%s", judgement->why);
    int64_t weight = instance_weight(p->sampler.instance);
    if (!p->as_found) {
        TRY(find_smaller(p, &found, &weight));
        TRY(draw(p, &found, &drawn));
        TRY(make_plain(p, p->sampler.instance));
    }
    return print_counterexample(p, p->sampler.instance);
}

/* ---- rules without instances --------------------------------------------------------------------------------- */

static size_t start_of(const Expr *e) {
    size_t at = e->at;
    for (size_t i = 0; i < e->n; i++) {
        size_t other = start_of(e->args[i]);
        at = other < at ? other : at;
    }
    return at;
}

static Str text_of(const Rule *rule, const Expr *e) {
    Str text = rule->set->text;
    size_t from = start_of(e), to = from, depth = 0;
    for (; to < text.n && text.s[to] != '\n'; to++) {
        char c = text.s[to];
        if (c == '(' || c == '[') depth++;
        if ((c == ')' || c == ']') && depth-- == 0) break;
        if (c == ',' && depth == 0) break;
    }
    return (Str){text.s + from, to - from};
}

static void note_failure(Prover *p) {
    const Sampler *s = &p->sampler;
    p->not_drawn++;
    if (s->problem[0]) memcpy(p->problem, s->problem, sizeof p->problem);
    for (size_t i = 0; s->unmet && i < s->n_tests; i++)
        if (s->tests[i] == s->unmet) p->unmet[i]++;
}

static tn_status why_no_match(Prover *p, char *why, size_t size) {
    bool drawn, matched = false;
    Model *model;
    Node *root;
    TRY(draw(p, &p->last, &drawn));
    Match *match = drawn ? arena_new(&p->sampler.arena, Match) : NULL;
    if (!match) return drawn ? TN_OUT_OF_MEMORY : TN_OK;
    TRY(instance_model(p->ctx, p->sampler.instance, &model, &root));
    tn_status status = infer_model(model);
    if (status == TN_OK) status = rule_match(p->rule, root, &p->sampler.arena, match, &matched);
    snprintf(why, size, "%s",
             status != TN_OK ? diag_text()
             : matched       ? "the right side cannot be made where the left side matches"
                             : "no left side that was made is matched");
    if (status != TN_OK && status != TN_OUT_OF_MEMORY) diag_clear();
    model_free(model);
    return status == TN_OUT_OF_MEMORY ? status : TN_OK;
}

static tn_status say_why(Prover *p) {
    Proof *proof = p->proof;
    size_t worst = 0, n = 0;
    char *why = proof->why;
    proof->outcome = PROOF_NO_INSTANCE;
    n = (size_t)snprintf(why, sizeof proof->why, "cannot be proven: %zu of %zu tries gave an instance", p->telling,
                         proof->tried);
    for (size_t i = 0; i < LIST_MAX * 2; i++)
        if (p->unmet[i] > p->unmet[worst]) worst = i;
    if (p->not_matched > p->not_drawn) {
        n += (size_t)snprintf(why + n, sizeof proof->why - n, "; ");
        return why_no_match(p, why + n, sizeof proof->why - n);
    }
    Str condition = p->unmet[worst] ? text_of(p->rule, p->sampler.tests[worst]) : STR("");
    if (condition.n)
        snprintf(why + n, sizeof proof->why - n, "; no instance satisfies: %.*s", (int)condition.n, condition.s);
    else if (p->problem[0]) snprintf(why + n, sizeof proof->why - n, "; %s", p->problem);
    return TN_OK;
}

/* ---- what was seen ------------------------------------------------------------------------------------------- */

static void note_seen(Prover *p) {
    const Sampler *s = &p->sampler;
    for (size_t v = 0; v < p->rule->n_values; v++)
        *(s->value_of[v] == ABSENT ? &p->seen.absent[v] : &p->seen.present[v]) = true;
    for (size_t k = 0; k < p->rule->n_match; k++)
        for (size_t i = 0; i < p->rule->match[k].n_ops; i++)
            if (p->rule->match[k].ops[i] == s->ops[k]) p->seen.ops[k] |= (uint64_t)1 << (i & 63);
}

static void say_unseen(Prover *p, const char *name, const char *what) {
    char *unseen = p->proof->unseen;
    size_t n = strlen(unseen), room = sizeof p->proof->unseen - n;
    snprintf(unseen + n, room, "%s%s %s", n ? ", " : "", name, what);
}

/* Where the right side cannot be made without an operand, or of an op, the rule is never applied there. */
static void find_unseen(Prover *p) {
    for (size_t k = 0; k < p->rule->n_match; k++) {
        const RuleNode *node = &p->rule->match[k];
        for (size_t i = 0; i < node->n_operands; i++) {
            const RuleOperand *o = &node->operands[i];
            if (o->kind != OPERAND_VALUE || !o->optional) continue;
            char name[80];
            snprintf(name, sizeof name, "%%%.*s", (int)p->rule->values[o->value].n, p->rule->values[o->value].s);
            if (!p->seen.absent[o->value]) say_unseen(p, name, "absent");
            if (!p->seen.present[o->value]) say_unseen(p, name, "present");
        }
        for (size_t i = 0; i < node->n_ops && node->n_ops > 1; i++)
            if (!(p->seen.ops[k] >> (i & 63) & 1)) say_unseen(p, node->ops[i]->name, "among the alternatives");
    }
}

/* ---- the proof ----------------------------------------------------------------------------------------------- */

static tn_status one_instance(Prover *p) {
    Proof *proof = p->proof;
    Judgement judgement;
    bool drawn;
    Draw d = {mix(p->seed, proof->tried),
              (int)proof->tried,
              proof->tried > 400 && proof->instances == 0,
              {USUAL_SIZE, false}};
    proof->tried++;
    TRY(draw(p, &d, &drawn));
    if (!drawn) {
        note_failure(p);
        return TN_OK;
    }
    TRY(instance_judge(p->ctx, p->sampler.instance, p->matcher, &judgement, NULL));
    if (judgement.verdict == VERDICT_REFUTED) return refute(p, d, &judgement);
    if (judgement.verdict == VERDICT_NONE) {
        p->not_matched++;
        p->last = d;
        return TN_OK;
    }
    proof->instances++;
    p->telling += judgement.tells;
    proof->exact &= judgement.exact;
    note_seen(p);
    if (judgement.difference > proof->worst) proof->worst = judgement.difference;
    return TN_OK;
}

/* Of many alternatives each gets its share. */
enum { OF_EACH_OP = 10 };

static size_t enough(const Rule *rule, size_t instances) {
    size_t most = 0;
    for (size_t k = 0; k < rule->n_match; k++) most = rule->match[k].n_ops > most ? rule->match[k].n_ops : most;
    return most * OF_EACH_OP > instances ? most * OF_EACH_OP : instances;
}

static tn_status prove(Prover *p, size_t instances) {
    Proof *proof = p->proof;
    while (proof->outcome == PROOF_HOLDS && p->telling < instances) {
        if (proof->tried >= TRIES_AT_FIRST + TRIES_MORE * p->telling) return say_why(p);
        TRY(one_instance(p));
    }
    return TN_OK;
}

tn_status rule_prove(Context *ctx, const Rule *rule, const ProofOptions *options, Proof *out) {
    *out = (Proof){.outcome = PROOF_HOLDS, .exact = true};
    text_init(&out->counterexample, &allocator_default); /* outlives the context */
    Prover *p = mem_alloc(&ctx->allocator, sizeof *p, alignof(Prover));
    if (!p) return TN_OUT_OF_MEMORY;
    p->rule = rule;
    p->ctx = ctx;
    p->proof = out;
    p->seed = seed_of_name(rule->name, options->seed);
    p->as_found = options->as_found;
    tn_status status = sampler_init(&p->sampler, ctx, rule);
    if (status == TN_OK) status = matcher_new(&ctx->allocator, &rule, 1, &p->matcher);
    if (status == TN_OK) status = prove(p, enough(rule, options->instances));
    if (status == TN_OK && out->outcome == PROOF_HOLDS) find_unseen(p);
    matcher_free(p->matcher);
    sampler_free(&p->sampler);
    mem_free(&ctx->allocator, p, sizeof *p);
    return status;
}

void proof_free(Proof *proof) { text_free(&proof->counterexample); }
