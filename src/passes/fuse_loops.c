/* SPDX-License-Identifier: Apache-2.0 */
/* fuse-loops: element-wise nodes of equal result sizes that read one another become one tn.Fused, and so does a heavy node
   (a convolution, a product of matrices, a reduction, a normalisation, a pooling) with the element-wise nodes behind it. A
   kernel then runs all of the body on a tile while that is in cache, so a group is made only where at least one value needs
   not be written and read any more. Only what some kernel takes in a body goes into one: on the reference kernels nothing is
   gained.

   Clusters grow in one walk over the nodes. Each has a rank, and a reading of another cluster goes from a lower rank to a
   higher one, always: so clusters of one rank never depend on each other and may become one, and a cluster may rise when
   nobody else reads of it. There is no other test for cycles, and it takes no search. Afterwards each cluster is cut where
   too much of it would be read from outside; what is left is brought together and moved into bodies. Heavy nodes come first,
   then element-wise nodes among themselves. */
#include "kernel/kernel.h"
#include "ops/op.h"
#include "pass/pass.h"
#include "rewrite/rewrite.h"

enum {
    MOST_NODES = 256,              /* of a group, whatever the option says */
    MOST_READS = OP_MAX_INPUTS,    /* operands of a group */
    MOST_RESULTS = OP_MAX_OUTPUTS, /* of an element-wise group; a heavy one has one */
    MOST_SLOTS = 128,              /* operands of all its nodes, so that looking them up is quick */
    SMALL = 64                     /* elements: what sizes are computed with, and not worth it */
};

/* ---- ops ----------------------------------------------------------------------------------------------------- */

/* Heavy ones: a group has at most one of them. */
static const char heavy_names[] =
    "AveragePool CausalConvWithState Conv ConvInteger ConvTranspose DeformConv Einsum Gemm "
    "GlobalAveragePool GlobalLpPool GlobalMaxPool GroupNormalization Hardmax InstanceNormalization LRN LayerNormalization "
    "LogSoftmax LpNormalization LpPool MatMul MatMulInteger MaxPool MeanVarianceNormalization QLinearConv QLinearMatMul "
    "RMSNormalization ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum "
    "ReduceSumSquare SimplifiedLayerNormalization Softmax";
static const char heavy_ms_names[] =
    "DynamicQuantizeMatMul FusedConv FusedGemm FusedMatMul MatMulIntegerToFloat MatMulNBits NhwcConv QGemm "
    "SimplifiedLayerNormalization SkipLayerNormalization SkipSimplifiedLayerNormalization";

/* Element-wise although the schema does not say so. Of the former the result has the sizes of operand 0, whose scales or
   other factors may go along an axis. */
static const char like_first_names[] = "BatchNormalization DequantizeLinear QuantizeLinear";
static const char like_first_ms_names[] = "DequantizeLinear QuantizeLinear";
static const char light_ms_names[] = "QLinearAdd QLinearLeakyRelu QLinearMul QLinearSigmoid";

typedef struct OpList {
    const OpSchema *ops[64];
    size_t n;
} OpList;

static void list_ops(OpList *list, Str domain, const char *names) {
    while (*names) {
        size_t n = strcspn(names, " ");
        const OpSchema *op = op_find(domain, (Str){names, n});
        if (op && list->n < sizeof list->ops / sizeof *list->ops) list->ops[list->n++] = op;
        names += n + (names[n] == ' ');
    }
}

static bool has_op(const OpList *list, const OpSchema *op) {
    for (size_t i = 0; i < list->n; i++)
        if (list->ops[i] == op) return true;
    return false;
}

/* ---- the pass's state ---------------------------------------------------------------------------------------- */

/* A node; of the last of a cluster, which stands for it, also what is true of the cluster. */
typedef struct Item {
    uint32_t up; /* towards the last of its cluster */
    uint32_t rank;
    uint32_t size, slots, reads; /* nodes; their operands; those that come from outside */
    int64_t asked;               /* readings by others */
    bool light, heavy;           /* the node */
    bool open;                   /* others may join */
    bool weighs;                 /* the cluster has a heavy node */
    bool varies;                 /* the node's results depend on more than constants and sizes */
    bool follows;                /* the node reads what varies, or its sizes, maybe by way of others */
    const Value *like;           /* has the sizes of the node's first result, whatever they are; maybe that itself */
} Item;

typedef struct Group {
    uint32_t head; /* the place of its first node */
    uint32_t n;
} Group;

typedef struct Fusing {
    PassRun *run;
    const OpSchema *fused;
    OpList heavy_ops, light_ops, like_first_ops;
    size_t max_nodes;
    bool any;        /* nodes need no kernel that takes them in a body */
    bool heavy;      /* this turn is for groups with a heavy node */
    uint32_t *place; /* by node id */
    int64_t room;    /* nodes that the model may still get */
    int64_t n_groups, n_nodes;
    Arena arena; /* of one graph */
    Graph *graph;
    Node **nodes;
    Item *items;
    uint32_t n;
    NodeGroups groups;
    uint32_t *head, *next; /* a cluster's nodes in order: the first by its last, and then each one's next */
    uint32_t *number;      /* of a node in its cluster */
    VEC(Group) found;
} Fusing;

static uint32_t cluster_of(const Fusing *f, uint32_t i) {
    while (f->items[i].up != i) i = f->items[i].up = f->items[f->items[i].up].up;
    return i;
}

/* The place of the node that makes the value, or UINT32_MAX where none of this graph does. */
static uint32_t maker_of(const Fusing *f, const Value *v) {
    return v && v->def && v->graph == f->graph ? f->place[v->def->id] : UINT32_MAX;
}

/* ---- which nodes may be in a group --------------------------------------------------------------------------- */

static bool reads_contents(const Node *node, uint32_t i) { return i < 32 && node->op->content_inputs & 1u << i; }
static bool reads_shape_only(const Node *node, uint32_t i) { return i < 32 && node->op->shape_inputs & 1u << i; }

/* Constants that go into the body: single numbers, and what decides sizes. */
static bool goes_in(const Node *reader, uint32_t i) {
    const Tensor *t = value_payload(reader->operands[i].value);
    return t && t->dtype != TN_STRING && (tensor_count(t) == 1 || reads_contents(reader, i));
}

static bool is_plain_tensor(const Type *type) {
    return type->kind == TYPE_TENSOR && type->dtype && type->dtype != TN_STRING && !type->layout;
}

/* Inference looks at the contents of small tensors, and programs compute with them while they plan; both want single nodes. */
static bool may_be_sizes(const Type *type) {
    const Shape *s = &type->shape;
    if (s->rank > 1) return false;
    return s->rank < 0 || !dtype_is_float(type->dtype) || s->rank == 0 ||
           (dim_is_const(s->dims[0]) && s->dims[0] <= SMALL);
}

static bool operands_fit(const Node *node) {
    if (node->n_operands > MOST_READS) return false;
    for (uint32_t i = 0; i < node->n_operands; i++) {
        const Value *v = node->operands[i].value;
        if (v && !is_plain_tensor(v->type)) return false;
        if (!v || !reads_contents(node, i)) continue;
        const Tensor *t = value_payload(v);
        if (!t || tensor_count(t) > SMALL) return false;
    }
    return true;
}

static bool may_join(const Node *node) {
    if (node->n_results == 0 || node->op->regions || node->op->flags & (OP_CONTROL | OP_DYNAMIC_OUT)) return false;
    const Type *type = node->results[0]->type;
    return is_plain_tensor(type) && !may_be_sizes(type) && operands_fit(node) && !node_is_random(node) &&
           node_is_read(node);
}

static bool varies(const Fusing *f, const Node *node) {
    if (value_payload(node_result(node, 0))) return false;
    if (node->n_operands == 0 || node->op->flags & (OP_CONTROL | OP_RANDOM)) return true;
    for (uint32_t i = 0; i < node->n_operands; i++) {
        const Value *v = node->operands[i].value;
        uint32_t maker = maker_of(f, v);
        if (!v || reads_shape_only(node, i) || (maker == UINT32_MAX && value_payload(v))) continue;
        if (maker == UINT32_MAX || f->items[maker].varies) return true;
    }
    return false;
}

static bool follows(const Fusing *f, const Node *node) {
    for (uint32_t i = 0; i < node->n_operands; i++) {
        uint32_t maker = maker_of(f, node->operands[i].value);
        if (maker != UINT32_MAX && f->items[maker].follows) return true;
    }
    return false;
}

/* ---- sizes --------------------------------------------------------------------------------------------------- */

static const Value *like_of(const Fusing *f, const Value *v) {
    uint32_t maker = maker_of(f, v);
    return maker == UINT32_MAX || v->index > 0 ? v : f->items[maker].like;
}

/* Whether broadcasting against it leaves these sizes as they are. */
static bool broadcasts_to(const Shape *s, const Shape *to) {
    for (int k = 1; k <= s->rank; k++) {
        Dim d = s->dims[s->rank - k];
        if (k > to->rank || (d != 1 && (d == DIM_UNKNOWN || d != to->dims[to->rank - k]))) return false;
    }
    return s->rank >= 0;
}

/* The sizes of an element-wise node's result are those of one operand where all others broadcast to it, even if nothing else
   is known of them. */
static const Value *find_like(const Fusing *f, const Node *node) {
    if (has_op(&f->like_first_ops, node->op)) return like_of(f, node->operands[0].value);
    for (uint32_t k = 0; k < node->n_operands; k++) {
        const Value *v = node->operands[k].value, *like = v ? like_of(f, v) : NULL;
        bool fits = v != NULL;
        for (uint32_t m = 0; fits && m < node->n_operands; m++) {
            const Value *other = node->operands[m].value;
            fits = !other || like_of(f, other) == like || broadcasts_to(&other->type->shape, &v->type->shape);
        }
        if (fits) return like;
    }
    return node->results[0];
}

static bool has_sizes(const Shape *s) {
    for (int k = 0; k < s->rank; k++)
        if (s->dims[k] == DIM_UNKNOWN) return false;
    return s->rank >= 0;
}

static bool same_sizes(const Fusing *f, uint32_t i, uint32_t k) {
    const Shape *a = &f->nodes[i]->results[0]->type->shape, *b = &f->nodes[k]->results[0]->type->shape;
    return f->items[i].like == f->items[k].like || (has_sizes(a) && shape_equal(a, b));
}

static bool is_light(const Fusing *f, const Node *node) {
    if (node->n_results != 1) return false;
    if (node->op->flags & OP_ELEMENTWISE || has_op(&f->light_ops, node->op)) return true;
    if (!has_op(&f->like_first_ops, node->op) || !node_operand(node, 0)) return false;
    return !op_attr_spec(node->op, STR("training_mode")) || attr_int(node, "training_mode") == 0;
}

/* Heavy nodes' kernels write floats of 32 bits; truth values are on the way. */
static bool is_narrow(const Type *type) { return type->dtype != TN_F32 && type->dtype != TN_BOOL; }

static void classify(Fusing *f, uint32_t i) {
    const Node *node = f->nodes[i];
    Item *item = &f->items[i];
    item->like = node_result(node, 0);
    item->varies = varies(f, node);
    item->follows = item->varies || follows(f, node);
    if (!item->varies || !may_join(node) || !(f->any || kernel_fuses(node))) return;
    item->light = is_light(f, node) && !(f->heavy && !f->any && is_narrow(node->results[0]->type));
    if (item->light) item->like = find_like(f, node);
    item->heavy = f->heavy && !item->light && has_op(&f->heavy_ops, node->op);
    item->weighs = item->heavy;
    item->open = item->light || item->heavy;
}

/* ---- clusters ------------------------------------------------------------------------------------------------ */

/* The clusters that a node may join, each once. */
typedef struct Choice {
    uint32_t clusters[MOST_READS];
    uint32_t reads[MOST_READS]; /* by the node */
    size_t n;
    uint32_t rank; /* of what would come out */
} Choice;

static void find_choices(const Fusing *f, uint32_t i, Choice *c) {
    const Node *node = f->nodes[i];
    c->n = 0;
    for (uint32_t k = 0; k < node->n_operands; k++) {
        uint32_t maker = maker_of(f, node->operands[k].value);
        uint32_t cluster = maker == UINT32_MAX ? maker : cluster_of(f, maker);
        if (cluster == UINT32_MAX || !f->items[cluster].open || !same_sizes(f, i, cluster)) continue;
        size_t at = 0;
        while (at < c->n && c->clusters[at] != cluster) at++;
        if (at == c->n) {
            c->clusters[c->n] = cluster;
            c->reads[c->n++] = 0;
        }
        c->reads[at]++;
    }
}

static void drop_choice(Choice *c, size_t at) {
    c->n--;
    for (; at < c->n; at++) {
        c->clusters[at] = c->clusters[at + 1];
        c->reads[at] = c->reads[at + 1];
    }
}

static bool is_chosen(const Choice *c, uint32_t cluster) {
    for (size_t at = 0; at < c->n; at++)
        if (c->clusters[at] == cluster) return true;
    return false;
}

/* Above all that the node reads and does not join, and not below what it joins. */
static uint32_t rank_with(const Fusing *f, uint32_t i, const Choice *c) {
    const Node *node = f->nodes[i];
    uint32_t rank = f->items[i].rank;
    for (uint32_t k = 0; k < node->n_operands; k++) {
        uint32_t maker = maker_of(f, node->operands[k].value);
        if (maker == UINT32_MAX || !f->items[maker].follows) continue; /* such a one depends on no cluster */
        uint32_t cluster = cluster_of(f, maker), least = f->items[cluster].rank + !is_chosen(c, cluster);
        if (rank < least) rank = least;
    }
    return rank;
}

/* Leaves out clusters that would have to rise although others read of them, until none would. */
static void drop_bound(const Fusing *f, uint32_t i, Choice *c) {
    for (bool again = true; again;) {
        again = false;
        c->rank = rank_with(f, i, c);
        for (size_t at = c->n; at-- > 0;) {
            const Item *item = &f->items[c->clusters[at]];
            if (item->rank == c->rank || item->asked == c->reads[at]) continue;
            drop_choice(c, at);
            again = true;
        }
    }
}

/* Of several with a heavy node the one that is computed last stays; *dropped when there were. */
static void keep_one_heavy(const Fusing *f, Choice *c, bool *dropped) {
    size_t best = SIZE_MAX;
    *dropped = false;
    for (size_t at = 0; at < c->n; at++) {
        const Item *item = &f->items[c->clusters[at]], *other = best == SIZE_MAX ? NULL : &f->items[c->clusters[best]];
        if (!item->weighs) continue;
        if (!other || item->rank > other->rank || (item->rank == other->rank && c->clusters[at] > c->clusters[best]))
            best = at;
    }
    for (size_t at = c->n; at-- > 0;) {
        if (at == best || !f->items[c->clusters[at]].weighs) continue;
        drop_choice(c, at);
        *dropped = true;
    }
}

static uint32_t reads_from_outside(const Node *node) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < node->n_operands; i++) n += node->operands[i].value && !goes_in(node, i);
    return n;
}

static bool is_within_limits(const Fusing *f, const Node *node, const Choice *c) {
    size_t size = 1, slots = node->n_operands, reads = reads_from_outside(node);
    for (size_t at = 0; at < c->n; at++) {
        const Item *item = &f->items[c->clusters[at]];
        size += item->size;
        slots += item->slots;
        reads += item->reads;
        reads -= c->reads[at]; /* which the node's own count has */
    }
    return size <= f->max_nodes && slots <= MOST_SLOTS && reads <= MOST_READS;
}

/* The last one that has no heavy node, or else the last. */
static size_t least_wanted(const Fusing *f, const Choice *c) {
    for (size_t at = c->n; at-- > 0;)
        if (!f->items[c->clusters[at]].weighs) return at;
    return c->n - 1;
}

static void choose(const Fusing *f, uint32_t i, Choice *c) {
    bool dropped = true;
    c->n = 0;
    if (f->items[i].light) find_choices(f, i, c);
    while (dropped) {
        drop_bound(f, i, c);
        keep_one_heavy(f, c, &dropped);
        if (dropped || c->n == 0 || is_within_limits(f, f->nodes[i], c)) continue;
        drop_choice(c, least_wanted(f, c));
        dropped = true;
    }
}

static int64_t count_uses(const Node *node) {
    int64_t n = 0;
    for (uint32_t k = 0; k < node->n_results; k++)
        for (const Use *use = node->results[k]->uses; use; use = use->next) n++;
    return n;
}

static void join(Fusing *f, uint32_t i, const Choice *c) {
    Item *item = &f->items[i];
    item->up = i;
    item->size = 1;
    item->slots = f->nodes[i]->n_operands;
    item->reads = item->open ? reads_from_outside(f->nodes[i]) : 0;
    item->asked = count_uses(f->nodes[i]);
    item->rank = c->rank;
    for (size_t at = 0; at < c->n; at++) {
        Item *other = &f->items[c->clusters[at]];
        other->up = i;
        item->size += other->size;
        item->slots += other->slots;
        item->reads += other->reads - c->reads[at];
        item->asked += other->asked - c->reads[at];
        item->weighs |= other->weighs;
    }
}

/* Nodes whose nested graphs read a value stand above it, too. */
static void raise_nested_readers(Fusing *f, uint32_t i) {
    uint32_t rank = f->items[cluster_of(f, i)].rank + 1;
    for (uint32_t k = 0; k < f->nodes[i]->n_results; k++)
        for (const Use *use = f->nodes[i]->results[k]->uses; use; use = use->next) {
            uint32_t reader = use->user->graph == f->graph ? UINT32_MAX : groups_reader(&f->groups, use);
            if (reader != UINT32_MAX && f->items[reader].rank < rank) f->items[reader].rank = rank;
        }
}

static void make_clusters(Fusing *f) {
    Choice c;
    for (uint32_t i = 0; i < f->n; i++) {
        classify(f, i);
        choose(f, i, &c);
        join(f, i, &c);
        raise_nested_readers(f, i);
    }
}

/* ---- groups -------------------------------------------------------------------------------------------------- */

static tn_status list_members(Fusing *f) {
    f->head = arena_array(&f->arena, uint32_t, f->n);
    f->next = arena_array(&f->arena, uint32_t, f->n);
    f->number = arena_array(&f->arena, uint32_t, f->n);
    if (!f->head || !f->next || !f->number) return TN_OUT_OF_MEMORY;
    for (uint32_t i = f->n; i-- > 0;) {
        uint32_t cluster = cluster_of(f, i);
        f->next[i] = f->head[cluster];
        f->head[cluster] = i;
    }
    return TN_OK;
}

/* The number of the last node of its cluster that reads the value; UINT32_MAX: others read it. */
static uint32_t last_reader(const Fusing *f, const Value *v, uint32_t cluster) {
    uint32_t last = 0;
    for (const Use *use = v->uses; use; use = use->next) {
        if (use->user->graph != f->graph || use->user == f->graph->ret) return UINT32_MAX;
        uint32_t reader = f->place[use->user->id];
        if (cluster_of(f, reader) != cluster) return UINT32_MAX;
        if (last < f->number[reader]) last = f->number[reader];
    }
    return last;
}

/* How many of a cluster's nodes, from the first on, become one: as many as there are while few enough values are read from
   outside of them and at least one is not. 0: none. */
static uint32_t cut(const Fusing *f, uint32_t cluster) {
    int32_t opened[MOST_NODES + 2] = {0}, closed[MOST_NODES + 2] = {0}, open = 0, saved = 0;
    int32_t most = f->items[cluster].weighs ? 1 : MOST_RESULTS;
    uint32_t n = f->items[cluster].size, best = 0;
    bool weighs = !f->items[cluster].weighs;
    for (uint32_t k = 0, i = f->head[cluster]; k < n; k++, i = f->next[i]) f->number[i] = k;
    for (uint32_t k = 0, i = f->head[cluster]; k < n; k++, i = f->next[i])
        for (uint32_t r = 0; r < f->nodes[i]->n_results; r++) {
            const Value *v = f->nodes[i]->results[r];
            uint32_t last = v->uses ? last_reader(f, v, cluster) : 0;
            if (!v->uses) continue;
            opened[k + 1]++;
            if (last != UINT32_MAX) closed[last + 1]++;
        }
    for (uint32_t k = 1, i = f->head[cluster]; k <= n; k++, i = f->next[i]) {
        open += opened[k] - closed[k];
        saved += closed[k];
        weighs |= f->items[i].heavy;
        if (k > 1 && open <= most && saved > 0 && weighs) best = k;
    }
    return best;
}

/* Each new node takes one with it that holds its body's outputs, and perhaps copies of constants. */
static bool afford(Fusing *f, uint32_t cluster) {
    int64_t most = 2 + (int64_t)f->items[cluster].slots;
    if (most > f->room || !pass_may_change(f->run)) return false;
    f->room -= most;
    return true;
}

static tn_status find_groups(Fusing *f) {
    f->found.len = 0;
    for (uint32_t i = 0; i < f->n; i++) {
        const Item *item = &f->items[i];
        if (item->up != i || item->size < 2 || item->weighs != f->heavy) continue;
        Group g = {f->head[i], cut(f, i)};
        if (g.n == 0 || !afford(f, i)) continue;
        uint32_t last = g.head;
        for (uint32_t k = 1; k < g.n; k++) last = f->next[last];
        for (uint32_t k = 0, m = g.head; k < g.n; k++, m = f->next[m]) f->groups.last[m] = last;
        TRY(vec_push(&f->run->ctx->allocator, &f->found, g));
    }
    return TN_OK;
}

static tn_status fuse(Fusing *f, const Group *g) {
    Node *nodes[MOST_NODES], *fused;
    Str loc = {0};
    for (uint32_t k = 0, i = g->head; k < g->n; k++, i = f->next[i]) {
        nodes[k] = f->nodes[i];
        if (f->items[i].heavy) loc = nodes[k]->loc;
    }
    if (!f->heavy) loc = nodes[g->n - 1]->loc;
    TRY(outline_nodes(nodes, g->n, f->fused, goes_in, &fused));
    if (loc.n) fused->loc = loc;
    f->n_groups++;
    f->n_nodes += g->n;
    return TN_OK;
}

/* ---- the pass ------------------------------------------------------------------------------------------------ */

static tn_status number_nodes(Fusing *f) {
    size_t n = 0;
    f->n = (uint32_t)f->graph->n_nodes;
    f->nodes = arena_array(&f->arena, Node *, f->n);
    f->items = arena_array(&f->arena, Item, f->n);
    f->groups = (NodeGroups){f->nodes, f->n, f->place, arena_array(&f->arena, uint32_t, f->n)};
    if (!f->nodes || !f->items || !f->groups.last) return TN_OUT_OF_MEMORY;
    for (Node *node = f->graph->first; node; node = node->next) {
        f->nodes[n] = node;
        f->groups.last[n] = (uint32_t)n;
        f->place[node->id] = (uint32_t)n++;
    }
    return TN_OK;
}

static tn_status fuse_graph(Fusing *f, Graph *graph) {
    arena_reset(&f->arena);
    f->graph = graph;
    if (graph->n_nodes < 2 || graph_is_closed(graph)) return TN_OK;
    if ((uint64_t)graph_depth(graph) >= f->run->ctx->limits.max_nesting) return TN_OK;
    TRY(number_nodes(f));
    make_clusters(f);
    TRY(list_members(f));
    TRY(find_groups(f));
    if (f->found.len == 0) return TN_OK;
    TRY(groups_gather(&f->groups, &f->arena));
    for (size_t i = 0; i < f->found.len; i++) TRY(fuse(f, &f->found.data[i]));
    return TN_OK;
}

static tn_status fuse_graphs(Fusing *f) {
    Graph **graphs;
    size_t n;
    Model *model = f->run->model;
    TRY(model_graphs(model, f->run->scratch, &graphs, &n));
    for (int heavy = 1; heavy >= 0; heavy--) {
        f->heavy = heavy;
        f->place = arena_array(f->run->scratch, uint32_t, (size_t)model->n_nodes + 1);
        if (!f->place) return TN_OUT_OF_MEMORY;
        for (size_t i = 0; i < n; i++) TRY(fuse_graph(f, graphs[i]));
    }
    return TN_OK;
}

static tn_status run(PassRun *run, Graph *graph) {
    (void)graph;
    const Model *model = run->model;
    Fusing f = {.run = run, .fused = op_find(STR("tn"), STR("Fused"))};
    f.any = pass_bool(run, "any");
    f.max_nodes = (size_t)min_i64(max_i64(pass_int(run, "max_nodes"), 2), MOST_NODES);
    uint64_t most = run->ctx->limits.max_nodes;
    f.room = (most < INT64_MAX ? (int64_t)most : INT64_MAX) - (int64_t)(model_node_count(model) + model->graphs.len);
    list_ops(&f.heavy_ops, STR(""), heavy_names);
    list_ops(&f.heavy_ops, STR("com.microsoft"), heavy_ms_names);
    list_ops(&f.like_first_ops, STR(""), like_first_names);
    list_ops(&f.like_first_ops, STR("com.microsoft"), like_first_ms_names);
    list_ops(&f.light_ops, STR("com.microsoft"), light_ms_names);
    arena_init(&f.arena, &run->ctx->allocator);
    tn_status status = fuse_graphs(&f);
    arena_free(&f.arena);
    vec_free(&run->ctx->allocator, &f.found);
    if (status != TN_OK) return status;
    TRY(pass_count(run, "groups", f.n_groups));
    return pass_count(run, "nodes", f.n_nodes);
}

const Pass pass_fuse_loops = {
    .name = "fuse-loops",
    .summary = "put heavy nodes and the element-wise ones behind them, and element-wise chains, into one node each",
    .phase = PHASE_POST_REWRITE,
    .order = 900,
    .opt_level = 1,
    .targets = {"cpu"},
    .requires = {"infer-shapes"},
    .keeps = {"infer-shapes"},
    .options = {{"max_nodes", OPTION_INT, "64", "nodes of one group, at most 256"},
                {"any", OPTION_BOOL, "false", "also nodes that no kernel takes in a body"}},
    .run = run};
