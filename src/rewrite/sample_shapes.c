/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes of operands. Of most ops a line of letters says how they hang together:
       n,g*c,S+;g*m,c,K=S;g*m->n,g*m,O=S
   An operand is its dimensions; a letter is one size everywhere, a product may be split in any way that fits. A capital
   letter is several dimensions: + one to three of them, * none to three, =S as many as S. Others have a function. */
#include "rewrite/prove_int.h"

/* ---- small things -------------------------------------------------------------------------------------------- */

bool slot_shaped(const Slot *slot) {
    if (slot->rank < 0) return false;
    for (int i = 0; i < slot->rank; i++)
        if (slot->dims[i] < 0) return false;
    return true;
}

void slot_set(Slot *slot, int rank, const int64_t *dims) {
    slot->rank = rank;
    for (int i = 0; i < rank; i++) slot->dims[i] = dims[i];
}

int64_t some_size(Sampler *s) { return s->sizes[dice_int(&s->dice, 0, s->n_sizes - 1)]; }

int some_rank(Sampler *s, uint32_t mask) {
    static const int weights[INSTANCE_RANK + 1] = {1, 3, 6, 6, 8, 2, 1};
    int64_t all = 0;
    for (int r = 0; r <= INSTANCE_RANK; r++) all += mask >> r & 1 ? weights[r] : 0;
    if (!all) return -1;
    int64_t at = dice_int(&s->dice, 0, all - 1);
    for (int r = 0;; r++)
        if (mask >> r & 1 && (at -= weights[r]) < 0) return r;
}

/* Ranks that are asked of what stands there. */
static uint32_t ranks_of(const Ask *a, int i) {
    const Slot *slot = &a->in[i];
    uint32_t mask = (2u << INSTANCE_RANK) - 1;
    if (slot->rank >= 0) return slot->rank <= TN_MAX_RANK ? 1u << slot->rank : 0;
    if (slot->operand && slot->operand->kind == OPERAND_VALUE) mask = a->s->wants[slot->operand->value].ranks;
    for (int k = 0; k < TN_MAX_RANK; k++)
        if (slot->dims[k] >= 0 || slot->from_end[k] >= 0) mask &= ~0u << (k + 1);
    return mask;
}

static void fix_rank(Slot *slot, int rank) {
    slot->rank = rank;
    for (int i = 0; i < rank; i++)
        if (slot->from_end[i] >= 0) slot->dims[rank - 1 - i] = slot->from_end[i];
}

/* ---- broadcasts ---------------------------------------------------------------------------------------------- */

typedef struct Broadcast {
    Ask *a;
    int first, n, tail; /* slots; the last `tail` dimensions of each are not part of it */
    int rank;
    int64_t dims[TN_MAX_RANK]; /* counted from the end */
    bool grown;                /* it has sizes that no operand has yet */
} Broadcast;

static bool takes_part(const Broadcast *b, int i) { return b->a->in[i].state != SLOT_ABSENT; }

static bool merge(Broadcast *b, int rank, const int64_t *dims) {
    for (int k = 0; k < rank; k++) {
        int64_t d = dims[rank - 1 - k], *to = &b->dims[k];
        if (k >= b->rank) *to = 1;
        if (*to != d && *to != 1 && d != 1) return false;
        *to = *to == 1 ? d : *to;
        if (k >= b->rank) b->rank = k + 1;
    }
    return true;
}

static bool merge_known(Broadcast *b, bool *any) {
    for (int i = b->first; i < b->first + b->n; i++) {
        const Slot *slot = &b->a->in[i];
        if (!takes_part(b, i) || !slot_shaped(slot)) continue;
        *any = true;
        if (slot->rank < b->tail || !merge(b, slot->rank - b->tail, slot->dims)) return false;
    }
    return true;
}

/* Which free slot may bring sizes of its own; -1: none. */
static int find_carrier(const Broadcast *b) {
    int carrier = -1;
    for (int i = b->first; i < b->first + b->n; i++) {
        const Slot *slot = &b->a->in[i];
        if (!takes_part(b, i) || slot_shaped(slot) || slot->no_grow) continue;
        bool better = carrier < 0 || (b->a->in[carrier].number && !slot->number), worse = carrier >= 0 && slot->number;
        if (better || dice_chance(&b->a->s->dice, worse ? 12 : 40)) carrier = i;
    }
    return carrier;
}

/* The sizes of the result: what is known, and more. */
static void grow(Broadcast *b, int carrier, bool any) {
    Sampler *s = b->a->s;
    Broadcast wanted = *b;
    if (b->a->wanted && b->a->want.rank >= b->tail && dice_chance(&s->dice, 90) &&
        merge(&wanted, b->a->want.rank - b->tail, b->a->want.dims)) {
        wanted.grown = wanted.rank > b->rank || memcmp(wanted.dims, b->dims, sizeof b->dims) != 0;
        *b = wanted;
        return;
    }
    uint32_t ranks = ranks_of(b->a, carrier) & (b->a->ranks ? b->a->ranks : ~0u);
    if (!ranks) ranks = ranks_of(b->a, carrier);
    ranks &= ~0u << (b->rank + b->tail);
    bool fits = ranks >> (b->rank + b->tail) & 1;
    int rank = any && fits && dice_chance(&s->dice, 85) ? b->rank : some_rank(s, ranks) - b->tail;
    for (int k = 0; k < b->rank; k++)
        if (b->dims[k] == 1 && dice_chance(&s->dice, s->symbols ? 60 : 30)) b->dims[k] = some_size(s), b->grown = true;
    for (; b->rank < rank; b->rank++) b->dims[b->rank] = some_size(s), b->grown = true;
}

/* A shape that broadcasts to the result's. */
static bool reduce(Broadcast *b, Slot *slot, bool full) {
    Sampler *s = b->a->s;
    int rank = b->rank + b->tail;
    uint32_t ranks = ranks_of(b->a, (int)(slot - b->a->in));
    if (slot->number && !full && dice_chance(&s->dice, s->symbols ? 45 : 70)) ranks &= 1;
    if (!ranks) ranks = ranks_of(b->a, (int)(slot - b->a->in));
    bool fewer = !full && dice_chance(&s->dice, slot->number ? 90 : 35);
    if (slot->rank < 0) {
        uint32_t fit = ranks & ((2u << rank) - 1) & (~0u << b->tail);
        int drawn = fewer || !(fit >> rank & 1) ? some_rank(s, fit) : rank;
        if (drawn < 0) return false;
        fix_rank(slot, drawn);
    }
    if (slot->rank < b->tail || (slot->rank > rank && !slot->number)) return false;
    bool ones = slot->number && !full && dice_chance(&s->dice, 60);
    for (int k = 0; k < slot->rank - b->tail; k++) {
        int64_t *d = &slot->dims[slot->rank - b->tail - 1 - k];
        if (*d < 0) *d = k >= b->rank || ones || (!full && dice_chance(&s->dice, 20)) ? 1 : b->dims[k];
    }
    return true;
}

static bool broadcast(Ask *a, int first, int n, int tail) {
    Broadcast b = {.a = a, .first = first, .n = n, .tail = tail};
    bool any = false;
    if (!merge_known(&b, &any)) return false;
    int carrier = find_carrier(&b);
    if (carrier >= 0) grow(&b, carrier, any);
    bool full = b.grown || !any || dice_chance(&a->s->dice, 40);
    for (int i = first; i < first + n; i++)
        if (takes_part(&b, i) && !slot_shaped(&a->in[i]) && !reduce(&b, &a->in[i], full && i == carrier)) return false;
    return true;
}

/* ---- letters ------------------------------------------------------------------------------------------------- */

enum { DIMS_MAX = 6, FACTORS = 4, PACKS = 26 };

typedef struct DimWord {
    char pack, mode, like; /* S+, S*, K=S */
    char letters[FACTORS];
    int n;
} DimWord;
typedef struct Words {
    DimWord dims[DIMS_MAX];
    int n;
} Words;

typedef struct Letters {
    Ask *a;
    int64_t size[26]; /* -1: open */
    int64_t digit;
    int length[PACKS];
    int64_t pack[PACKS][TN_MAX_RANK];
} Letters;

static const char *read_dim(const char *p, DimWord *word) {
    *word = (DimWord){0};
    for (; *p && !strchr(",;-", *p); p++) {
        if (*p >= 'A' && *p <= 'Z') {
            if (word->mode == '=') word->like = *p;
            else word->pack = *p;
        } else if (word->pack) word->mode = *p;
        else if (*p != '*' && word->n < FACTORS) word->letters[word->n++] = *p;
    }
    return p;
}

static const char *read_words(const char *p, Words *words) {
    words->n = 0;
    while (*p && *p != ';' && *p != '-') {
        p = read_dim(p, &words->dims[words->n++]);
        if (*p == ',') p++;
    }
    return p;
}

static int least(const Words *w) {
    int n = w->n;
    for (int i = 0; i < w->n; i++) n -= w->dims[i].pack && w->dims[i].mode != '+';
    return n;
}

static int pack_at(const Words *w) {
    for (int i = 0; i < w->n; i++)
        if (w->dims[i].pack) return i;
    return -1;
}

static uint32_t ranks_of_words(const Words *w) {
    if (pack_at(w) < 0) return 1u << w->n;
    int from = least(w), to = w->n + 2;
    return ((2u << to) - 1) & (~0u << from);
}

/* A digit is itself. */
static int64_t *size_of(Letters *l, char letter) {
    if (letter >= 'a') return &l->size[letter - 'a'];
    l->digit = letter - '0';
    return &l->digit;
}

static bool split_size(Letters *l, const DimWord *w, int64_t size) {
    int open = 0;
    int64_t known = 1;
    for (int i = 0; i < w->n; i++) {
        int64_t each = *size_of(l, w->letters[i]);
        if (each < 0) open++;
        else known *= each;
    }
    if (!open) return known == size;
    if (known <= 0 || size % known) return false;
    size /= known;
    for (int i = 0; i < w->n; i++) {
        int64_t *each = size_of(l, w->letters[i]), part = size;
        if (*each >= 0) continue;
        if (--open > 0 && size > 0) {
            part = dice_int(&l->a->s->dice, 1, size);
            while (size % part) part--;
        }
        *each = part;
        size = part ? size / part : 0;
    }
    return true;
}

static bool bind_length(Letters *l, const DimWord *w, int length) {
    int *have = &l->length[w->pack - 'A'], *like = w->like ? &l->length[w->like - 'A'] : have;
    if (length < (w->mode == '+') || length > TN_MAX_RANK) return false;
    if ((*have >= 0 && *have != length) || (*like >= 0 && *like != length)) return false;
    *have = *like = length;
    return true;
}

/* Sizes of -1 say nothing. */
static bool bind(Letters *l, const Words *w, int rank, const int64_t *dims) {
    int pack = pack_at(w);
    if (pack < 0 ? rank != w->n : rank < w->n - 1) return false;
    if (pack >= 0 && !bind_length(l, &w->dims[pack], rank - w->n + 1)) return false;
    for (int i = 0, k = 0; i < w->n; i++) {
        if (i != pack) {
            if (dims[k] >= 0 && !split_size(l, &w->dims[i], dims[k])) return false;
            k++;
            continue;
        }
        int64_t *sizes = l->pack[w->dims[i].pack - 'A'];
        for (int j = 0; j < rank - w->n + 1; j++, k++) {
            if (dims[k] >= 0 && sizes[j] >= 0 && sizes[j] != dims[k]) return false;
            if (dims[k] >= 0) sizes[j] = dims[k];
        }
    }
    return true;
}

static int64_t draw_letter(Sampler *s, char letter) {
    if (letter == 'g') return dice_chance(&s->dice, 55) ? 1 : dice_int(&s->dice, 2, 3);
    return some_size(s);
}

static int64_t draw_pack(Sampler *s, char pack) {
    return pack == 'K'   ? dice_int(&s->dice, 1, 3)
           : pack == 'S' ? some_size(s) + (dice_chance(&s->dice, 60) ? 3 : 0)
                         : some_size(s);
}

static int length_of(Letters *l, const DimWord *w) { return w->pack ? l->length[w->pack - 'A'] : -1; }

/* The rank of an operand that has none yet. */
static bool draw_rank(Letters *l, const Words *w, int i) {
    int pack = pack_at(w);
    uint32_t mask = ranks_of(l->a, i) & ranks_of_words(w);
    if (pack >= 0 && length_of(l, &w->dims[pack]) >= 0) mask &= 1u << (w->n - 1 + length_of(l, &w->dims[pack]));
    int rank = some_rank(l->a->s, mask);
    if (rank < 0) return false;
    fix_rank(&l->a->in[i], rank);
    return true;
}

static void draw_sizes(Letters *l, const Words *w, Slot *slot) {
    Sampler *s = l->a->s;
    int k = 0;
    for (int i = 0; i < w->n; i++) {
        const DimWord *d = &w->dims[i];
        int64_t size = 1;
        for (int j = 0; j < d->n; j++) {
            int64_t *letter = size_of(l, d->letters[j]);
            if (*letter < 0) *letter = draw_letter(s, d->letters[j]);
            size *= *letter;
        }
        if (!d->pack) {
            slot->dims[k++] = size;
            continue;
        }
        for (int j = 0; j < l->length[d->pack - 'A']; j++) {
            int64_t *each = &l->pack[d->pack - 'A'][j];
            if (*each < 0) *each = draw_pack(s, d->pack);
            slot->dims[k++] = *each;
        }
    }
    slot->rank = k;
}

static void letter_from_attr(Letters *l, char letter, const char *attr) {
    const Attr *a = ask_attr(l->a, attr);
    if (a && a->kind == ATTR_INT && a->i > 0) l->size[letter - 'a'] = a->i;
}

/* Attributes that are sizes. An open one takes the letter's size when the shapes are there. */
static const struct {
    const char *attr;
    char letter;
} letter_attrs[] = {{"group", 'g'},     {"num_groups", 'g'},  {"blocksize", 'z'},
                    {"num_heads", 'h'}, {"q_num_heads", 'q'}, {"kv_num_heads", 'h'}};
enum { N_LETTER_ATTRS = sizeof letter_attrs / sizeof *letter_attrs };

static void attrs_from_letters(const Letters *l) {
    for (int i = 0; i < N_LETTER_ATTRS; i++) {
        int64_t size = l->size[letter_attrs[i].letter - 'a'];
        if (size < 0 || !ask_is_open(l->a, letter_attrs[i].attr)) continue;
        tn_status status = ask_set(l->a, &(Attr){.name = str_of(letter_attrs[i].attr), .kind = ATTR_INT, .i = size});
        if (status != TN_OK) l->a->s->failed = status;
    }
}

static void pack_from_attrs(Letters *l) {
    static const char *const attrs[] = {"kernel_shape", "strides", "dilations", "pads"};
    for (size_t i = 0; i < sizeof attrs / sizeof *attrs; i++) {
        const Attr *a = ask_attr(l->a, attrs[i]);
        int n = a && a->kind == ATTR_INTS ? (int)a->n / (i == 3 ? 2 : 1) : -1;
        if (n >= 0 && n <= TN_MAX_RANK) l->length['S' - 'A'] = n;
    }
}

static void letters_begin(Letters *l, Ask *a) {
    l->a = a;
    memset(l->size, -1, sizeof l->size);
    memset(l->pack, -1, sizeof l->pack);
    for (int i = 0; i < PACKS; i++) l->length[i] = -1;
    for (int i = 0; i < N_LETTER_ATTRS; i++) letter_from_attr(l, letter_attrs[i].letter, letter_attrs[i].attr);
    const AttrSpec *group = op_attr_spec(a->op, STR("group"));
    if (group && !ask_is_open(a, "group") && !ask_attr(a, "group")) l->size['g' - 'a'] = 1;
    if (op_attr_spec(a->op, STR("strides"))) pack_from_attrs(l);
}

/* Known operands first, then what the result should be, then what conditions ask of free ones. */
static bool bind_all(Letters *l, const Words *w, int n, const Words *result) {
    Ask *a = l->a;
    for (int i = 0; i < a->n_in && i < n; i++)
        if (a->in[i].state == SLOT_KNOWN && !bind(l, &w[i], a->in[i].rank, a->in[i].dims)) return false;
    if (a->wanted && result->n && dice_chance(&a->s->dice, 85)) {
        Letters saved = *l;
        if (!bind(l, result, a->want.rank, a->want.dims)) *l = saved;
    }
    for (int i = 0; i < a->n_in && i < n; i++) {
        if (!slot_open(a, i) || a->in[i].rank < 0) continue;
        if (!bind(l, &w[i], a->in[i].rank, a->in[i].dims)) return false;
    }
    return true;
}

static bool follow_letters(Ask *a, const char *text) {
    Words words[OP_MAX_INPUTS], result = {.n = 0};
    int n = 0;
    const char *p = text - 1;
    do p = read_words(p + 1, &words[n++]);
    while (*p == ';' && n < OP_MAX_INPUTS);
    if (*p == '-') read_words(p + 2, &result);
    Letters l;
    letters_begin(&l, a);
    if (!bind_all(&l, words, n, &result)) return false;
    for (int i = 0; i < a->n_in && i < n; i++) {
        if (!slot_open(a, i) || slot_shaped(&a->in[i])) continue;
        if (a->in[i].rank < 0 && !draw_rank(&l, &words[i], i)) return false;
        if (!bind(&l, &words[i], a->in[i].rank, a->in[i].dims)) return false;
        draw_sizes(&l, &words[i], &a->in[i]);
    }
    attrs_from_letters(&l);
    return true;
}

/* ---- ops with rules of their own ----------------------------------------------------------------------------- */

static bool any_shape(Ask *a, int i) {
    Slot *slot = &a->in[i];
    if (slot->state != SLOT_FREE || slot->filled) return true;
    if (i == 0 && a->wanted && op_keeps_rank(a->op) && slot->rank < 0 && ranks_of(a, 0) >> a->want.rank & 1)
        slot_set(slot, a->want.rank, a->want.dims);
    if (slot->rank < 0) {
        const Attr *perm = ask_attr(a, "perm");
        uint32_t ranks = ranks_of(a, i) & op_ranks(a->op, i);
        if (perm && i == 0) ranks = 1u << perm->n;
        int rank = some_rank(a->s, ranks);
        if (rank < 0) return false;
        fix_rank(slot, rank);
    }
    for (int k = 0; k < slot->rank; k++)
        if (slot->dims[k] < 0) slot->dims[k] = some_size(a->s);
    return true;
}

static bool shapes_broadcast(Ask *a) {
    if (a->in[0].state == SLOT_FREE && a->n_in == 1) return any_shape(a, 0);
    return broadcast(a, 0, a->n_in, 0);
}

/* A list is one channel. */
static bool shapes_channels(Ask *a) {
    const Slot *x = &a->in[0];
    bool list = x->rank == 1 || (x->rank < 0 && ranks_of(a, 0) & 2 && dice_chance(&a->s->dice, 6));
    return follow_letters(a, list ? "n;1;1;1;1" : "n,c,S*;c;c;c;c");
}

/* The second to the first's shape, which stays. */
static bool shapes_one_way(Ask *a) {
    if (!any_shape(a, 0)) return false;
    for (int i = 1; i < a->n_in; i++) a->in[i].no_grow = true;
    return broadcast(a, 0, a->n_in, 0);
}

static bool turned(const Ask *a, const char *attr) { return ask_int(a, attr) != 0; }

/* A dimension of a slot from the end; -1: open. */
static int64_t from_end(const Slot *slot, int i) {
    return slot->rank > i ? slot->dims[slot->rank - 1 - i] : slot->rank < 0 ? slot->from_end[i] : -1;
}

static bool shapes_vector(Ask *a) {
    int v = a->in[0].state != SLOT_FREE ? 1 : a->in[1].state != SLOT_FREE ? 0 : (int)dice_int(&a->s->dice, 0, 1);
    if (a->in[v].state != SLOT_FREE || a->in[v].rank >= 0) return false;
    const Slot *other = &a->in[1 - v];
    int64_t k = !slot_shaped(other) ? some_size(a->s) : from_end(other, v == 0 && other->rank > 1 ? 1 : 0);
    slot_set(&a->in[v], 1, &k);
    return other->state == SLOT_KNOWN || any_shape(a, 1 - v);
}

/* ... m,k by ... k,n, or either the other way round. */
static bool shapes_matmul(Ask *a) {
    bool ta = turned(a, "transA"), tb = turned(a, "transB");
    Slot *x = &a->in[0], *y = &a->in[1];
    if (dice_chance(&a->s->dice, a->s->knobs.plain ? 0 : 14) && (ranks_of(a, 0) | ranks_of(a, 1)) & 2)
        return shapes_vector(a);
    if ((x->state == SLOT_KNOWN && x->rank < 2) || (y->state == SLOT_KNOWN && y->rank < 2)) return true;
    int64_t k = from_end(x, ta ? 1 : 0), l = from_end(y, tb ? 0 : 1), m = from_end(x, ta ? 0 : 1),
            n = from_end(y, tb ? 1 : 0);
    if (k >= 0 && l >= 0 && k != l) return false;
    if (k < 0) k = l >= 0 ? l : some_size(a->s);
    if (a->wanted && a->want.rank >= 2 && m < 0) m = a->want.dims[a->want.rank - 2];
    if (a->wanted && a->want.rank >= 2 && n < 0) n = a->want.dims[a->want.rank - 1];
    if (m < 0) m = some_size(a->s);
    if (n < 0) n = some_size(a->s);
    if (!broadcast(a, 0, 2, 2)) return false;
    for (int i = 0; i < 2; i++) {
        Slot *slot = &a->in[i];
        int64_t outer = i == 0 ? (ta ? k : m) : (tb ? n : k), inner = i == 0 ? (ta ? m : k) : (tb ? k : n);
        if (slot->state != SLOT_FREE) continue;
        slot->dims[slot->rank - 2] = outer;
        slot->dims[slot->rank - 1] = inner;
    }
    return true;
}

static bool shapes_gemm(Ask *a) {
    static const char *const words[] = {"m,k;k,n->m,n", "m,k;n,k->m,n", "k,m;k,n->m,n", "k,m;n,k->m,n"};
    bool ta = turned(a, "transA"), tb = turned(a, "transB");
    int n_in = a->n_in;
    a->n_in = 2;
    bool ok = follow_letters(a, words[2 * ta + tb]);
    a->n_in = n_in;
    if (!ok || !slot_open(a, 2)) return ok;
    int64_t m = from_end(&a->in[0], ta ? 0 : 1), n = from_end(&a->in[1], tb ? 1 : 0);
    Broadcast b = {.a = a, .rank = 2, .dims = {n, m}};
    return reduce(&b, &a->in[2], false);
}

/* Scales lie over the axes from `axis` on; those of older opsets may broadcast. */
static bool shapes_layer_norm(Ask *a) {
    if (!any_shape(a, 0)) return false;
    const Slot *x = &a->in[0];
    if (ask_is_open(a, "axis") && !ask_draw_attr(a, "axis")) return false;
    int64_t axis = ask_int(a, "axis");
    if (axis < 0) axis += x->rank;
    if (axis < 0 || axis >= x->rank) return false;
    for (int i = 1; i < a->n_in; i++)
        if (slot_open(a, i) && a->in[i].rank < 0) slot_set(&a->in[i], x->rank - (int)axis, x->dims + axis);
    for (int i = 1; i < a->n_in; i++)
        if (slot_open(a, i) && !any_shape(a, i)) return false;
    return true;
}

static bool draw_axis(Ask *a, int rank, int64_t *axis) {
    if (ask_is_open(a, "axis")) {
        *axis = dice_int(&a->s->dice, 0, rank - 1);
        int64_t written = *axis - (dice_chance(&a->s->dice, 40) ? rank : 0);
        tn_status status = ask_set(a, &(Attr){.name = STR("axis"), .kind = ATTR_INT, .i = written});
        if (status != TN_OK) a->s->failed = status;
        return status == TN_OK;
    }
    *axis = ask_int(a, "axis");
    if (*axis < 0) *axis += rank;
    return *axis >= 0 && *axis < rank;
}

/* All alike but along the axis. */
static bool shapes_concat(Ask *a) {
    int like = -1;
    int64_t axis;
    for (int i = 0; i < a->n_in; i++)
        if (slot_there(a, i) && slot_shaped(&a->in[i])) like = i;
    if (like < 0 && a->n_in) like = 0;
    if (like < 0 || !any_shape(a, like) || a->in[like].rank < 1 || !draw_axis(a, a->in[like].rank, &axis)) return false;
    for (int i = 0; i < a->n_in; i++) {
        Slot *slot = &a->in[i];
        if (!slot_open(a, i) || slot_shaped(slot)) continue;
        if (slot->rank < 0) fix_rank(slot, a->in[like].rank);
        for (int k = 0; k < slot->rank; k++)
            if (slot->dims[k] < 0) slot->dims[k] = k == axis ? some_size(a->s) : a->in[like].dims[k];
    }
    return true;
}

/* The axis is cut into as many parts as there are results. */
static bool shapes_split(Ask *a) {
    int64_t axis;
    Slot *x = &a->in[0];
    bool fresh = x->state == SLOT_FREE && !slot_shaped(x);
    if (!any_shape(a, 0) || x->rank < 1 || !draw_axis(a, x->rank, &axis)) return false;
    if (fresh) x->dims[axis] = a->n_out * max_i64(1, min_i64(4, some_size(a->s)));
    return true;
}

static bool shapes_any(Ask *a) {
    for (int i = 0; i < a->n_in; i++)
        if (slot_there(a, i) && !any_shape(a, i)) return false;
    return true;
}

/* Only the first: the contents of the others decide their sizes. */
static bool shapes_first(Ask *a) { return any_shape(a, 0); }

/* Sizes that can be taken apart are better. */
static bool shapes_reshape(Ask *a) {
    const Slot before = a->in[0];
    Slot *x = &a->in[0];
    if (!any_shape(a, 0)) return false;
    bool fresh = before.state == SLOT_FREE && !before.filled && x->rank > 0 && !a->wanted;
    if (!fresh || !dice_chance(&a->s->dice, 40)) return true;
    int at = (int)dice_int(&a->s->dice, 0, x->rank - 1);
    if (before.dims[at] < 0 && before.from_end[x->rank - 1 - at] < 0) x->dims[at] *= 4;
    return true;
}

static bool set_number(Ask *a, const char *name, int64_t number) {
    tn_status status = ask_set(a, &(Attr){.name = str_of(name), .kind = ATTR_INT, .i = number});
    if (status != TN_OK) a->s->failed = status;
    return status == TN_OK;
}

/* The axis of a scale that is there, which has fewer numbers along it; -1: there is none, or two. */
static int axis_of_blocks(const Slot *x, const Slot *scale) {
    int axis = -1, n = 0;
    for (int k = 0; k < x->rank; k++)
        if (scale->dims[k] != x->dims[k]) axis = k, n++;
    return n == 1 ? axis : -1;
}

/* Now and then a scale for each block of the axis. Of a scale that is there several lengths of blocks make as many. */
static bool shapes_blocks(Ask *a) {
    const Slot *x = &a->in[0], *scale = &a->in[1];
    int64_t axis, parts, dims[TN_MAX_RANK];
    if (!ask_is_open(a, "block_size") || x->rank < 1 || !slot_there(a, 1)) return false;
    bool known = slot_shaped(scale);
    if (known ? scale->rank != x->rank : scale->rank >= 0 || !dice_chance(&a->s->dice, 25)) return false;
    int only = known ? axis_of_blocks(x, scale) : -1;
    if (only >= 0 && ask_is_open(a, "axis") && !set_number(a, "axis", only)) return false;
    if (!draw_axis(a, x->rank, &axis) || x->dims[axis] < 1) return false;
    parts = known ? scale->dims[axis] : dice_int(&a->s->dice, 1, x->dims[axis]);
    if (parts < 1) return false;
    int64_t least = (x->dims[axis] + parts - 1) / parts,
            most = parts > 1 ? (x->dims[axis] + parts - 2) / (parts - 1) - 1 : x->dims[axis] + 2;
    int64_t block = dice_int(&a->s->dice, least, max_i64(least, most));
    memcpy(dims, x->dims, sizeof dims);
    dims[axis] = (x->dims[axis] + block - 1) / block;
    for (int i = 1; i < a->n_in; i++)
        if (slot_open(a, i) && !slot_shaped(&a->in[i])) slot_set(&a->in[i], x->rank, dims);
    return set_number(a, "block_size", block);
}

/* The scale is one number, or one for each slice of the axis. */
static bool shapes_quantise(Ask *a) {
    if (!any_shape(a, 0)) return false;
    if (shapes_blocks(a)) return true;
    const Slot *x = &a->in[0];
    int64_t axis = 0;
    bool sliced = x->rank > 0 && dice_chance(&a->s->dice, 40);
    for (int i = 1; i < a->n_in; i++)
        if (slot_there(a, i) && a->in[i].rank >= 0) sliced = a->in[i].rank == 1;
    if (sliced && !draw_axis(a, x->rank, &axis)) return false;
    for (int i = 1; i < a->n_in; i++)
        if (slot_open(a, i) && !slot_shaped(&a->in[i])) slot_set(&a->in[i], sliced, &x->dims[axis]);
    return true;
}

static bool shapes_gather_elements(Ask *a) {
    if (!any_shape(a, 0)) return false;
    const Slot *x = &a->in[0];
    Slot *y = &a->in[1];
    if (!slot_open(a, 1)) return true;
    if (y->rank < 0) fix_rank(y, x->rank);
    for (int i = 0; i < y->rank && i < x->rank; i++)
        if (y->dims[i] < 0) y->dims[i] = x->dims[i] > 0 ? dice_int(&a->s->dice, 1, x->dims[i]) : 0;
    return true;
}

/* Now and then only the first elements of each head are turned. */
static bool turn_part(Ask *a) {
    const Slot *x = &a->in[0];
    if (!ask_is_open(a, "rotary_embedding_dim") || x->rank != 4 || x->dims[3] < 2) return true;
    int64_t half = dice_int(&a->s->dice, 1, x->dims[3] / 2), dims[3] = {x->dims[0], x->dims[2], half};
    tn_status status = ask_set(a, &(Attr){.name = STR("rotary_embedding_dim"), .kind = ATTR_INT, .i = 2 * half});
    if (status != TN_OK) a->s->failed = status;
    for (int i = 1; i < 3; i++)
        if (slot_open(a, i) && a->in[i].rank < 0) slot_set(&a->in[i], 3, dims);
    return status == TN_OK;
}

/* Tables of all positions, or of those at hand. */
static bool shapes_rotary(Ask *a) {
    bool part = !slot_there(a, 3) && dice_chance(&a->s->dice, 40);
    if (part && any_shape(a, 0) && turn_part(a) && a->in[1].rank == 3) return a->in[2].rank == 3;
    return follow_letters(a, slot_there(a, 3) ? "b,h,s,2*d;m,d;m,d;b,s" : "b,h,s,2*d;b,s,d;b,s,d");
}

/* Heads by themselves, or one behind the other, which needs their number. Several of the queries' may share one of keys. */
static bool shapes_attention(Ask *a) {
    static const char *const attrs[] = {"q_num_heads", "kv_num_heads"};
    bool ranked = false, flat = false;
    for (int i = 0; i < 3 && i < a->n_in; i++) {
        ranked |= a->in[i].rank >= 0;
        flat |= a->in[i].rank == 3;
    }
    bool shared = dice_chance(&a->s->dice, a->s->knobs.plain ? 10 : 40);
    if (!flat && (ranked || dice_chance(&a->s->dice, 75)))
        return follow_letters(a, shared ? "b,g*h,s,d;b,h,t,d;b,h,t,v;s,t;b,h,p,d;b,h,p,v->b,g*h,s,v"
                                        : "b,q,s,d;b,q,t,d;b,q,t,v;s,t;b,q,p,d;b,q,p,v->b,q,s,v");
    int64_t heads[2] = {dice_int(&a->s->dice, 1, 3), 0};
    heads[1] = heads[0];
    if (shared) heads[0] *= dice_int(&a->s->dice, 1, 3);
    for (int i = 0; i < 2; i++) {
        if (!ask_is_open(a, attrs[i])) continue;
        tn_status status = ask_set(a, &(Attr){.name = str_of(attrs[i]), .kind = ATTR_INT, .i = heads[i]});
        if (status != TN_OK) a->s->failed = status;
    }
    return follow_letters(a, "b,s,q*d;b,t,h*d;b,t,h*v;s,t;b,h,p,d;b,h,p,v->b,s,q*v");
}

/* ---- the table ----------------------------------------------------------------------------------------------- */

typedef struct ShapeRow {
    const char *op;
    const char *words; /* or the function */
    bool (*shapes)(Ask *a);
    bool keeps_rank;
    uint32_t ranks; /* of operand 0, without words; 0: any */
} ShapeRow;

#define RANKS(from, to) (((2u << (to)) - 1) & (~0u << (from)))

static const ShapeRow rows[] = {
    {"Attention", NULL, shapes_attention, true, RANKS(3, 4)},
    {"AveragePool", "n,c,S+", NULL, true, 0},
    {"BatchNormalization", NULL, shapes_channels, true, RANKS(1, 6)},
    {"BiasGelu", "S*,c;c", NULL, true, 0},
    {"CastLike", NULL, shapes_any, true, 0},
    {"Clip", NULL, shapes_first, true, 0},
    {"Concat", NULL, shapes_concat, true, RANKS(1, 6)},
    {"ConstantOfShape", NULL, shapes_first, false, RANKS(1, 1)},
    {"Conv", "n,g*c,S+;g*m,c,K=S;g*m->n,g*m,O=S", NULL, true, 0},
    {"ConvInteger", "n,g*c,S+;g*m,c,K=S;;->n,g*m,O=S", NULL, true, 0},
    {"ConvTranspose", "n,g*c,S+;g*c,m,K=S;g*m->n,g*m,O=S", NULL, true, 0},
    {"CumProd", NULL, shapes_first, true, RANKS(1, 6)},
    {"CumSum", NULL, shapes_first, true, RANKS(1, 6)},
    {"DepthToSpace", "n,z*z*c,h,w", NULL, true, 0},
    {"DequantizeLinear", NULL, shapes_quantise, true, 0},
    {"Dropout", NULL, shapes_first, true, 0},
    {"DynamicQuantizeLinear", NULL, shapes_first, true, 0},
    {"Expand", NULL, shapes_first, false, 0},
    {"FastGelu", "S*,c;c", NULL, true, 0},
    {"Flatten", NULL, shapes_first, false, 0},
    {"FusedConv", "n,g*c,S+;g*m,c,K=S;g*m;n,g*m,O=S->n,g*m,O=S", NULL, true, 0},
    {"FusedGemm", NULL, shapes_gemm, true, RANKS(2, 2)},
    {"FusedMatMul", NULL, shapes_matmul, false, RANKS(2, 6)},
    {"Gather", NULL, shapes_any, false, RANKS(1, 6)},
    {"GatherElements", NULL, shapes_gather_elements, true, RANKS(1, 6)},
    {"Gemm", NULL, shapes_gemm, true, RANKS(2, 2)},
    {"GlobalAveragePool", "n,c,S+", NULL, true, 0},
    {"GlobalLpPool", "n,c,S+", NULL, true, 0},
    {"GlobalMaxPool", "n,c,S+", NULL, true, 0},
    {"GroupNormalization", "n,g*c,S*;g*c;g*c", NULL, true, 0},
    {"Hardmax", NULL, shapes_any, true, RANKS(1, 6)},
    {"InstanceNormalization", "n,c,S+;c;c", NULL, true, 0},
    {"LRN", "n,c,S+", NULL, true, 0},
    {"LayerNormalization", NULL, shapes_layer_norm, true, RANKS(1, 6)},
    {"LogSoftmax", NULL, shapes_any, true, RANKS(1, 6)},
    {"LpNormalization", NULL, shapes_any, true, RANKS(1, 6)},
    {"LpPool", "n,c,S+", NULL, true, 0},
    {"MatMul", NULL, shapes_matmul, false, RANKS(1, 6)},
    {"MatMulInteger", NULL, shapes_matmul, false, RANKS(1, 6)},
    {"MaxPool", "n,c,S+", NULL, true, 0},
    {"MultiHeadAttention", "b,s,h*d;b,t,h*d;b,t,h*v", NULL, true, 0},
    {"OneHot", NULL, shapes_first, false, 0},
    {"PRelu", NULL, shapes_one_way, true, 0},
    {"Pad", NULL, shapes_first, true, 0},
    {"QLinearConv", "n,g*c,S+;;;g*m,c,K=S;;;;;g*m->n,g*m,O=S", NULL, true, 0},
    {"QLinearMatMul", "m,k;;;k,n;;;;->m,n", NULL, true, 0},
    {"QuantizeLinear", NULL, shapes_quantise, true, 0},
    {"QuickGelu", NULL, shapes_any, true, 0},
    {"RMSNormalization", NULL, shapes_layer_norm, true, RANKS(1, 6)},
    {"Range", ";;", NULL, false, 0},
    {"Reshape", NULL, shapes_reshape, false, 0},
    {"Resize", NULL, shapes_first, true, RANKS(2, 5)},
    {"RotaryEmbedding", NULL, shapes_rotary, true, RANKS(4, 4)},
    {"SimplifiedLayerNormalization", NULL, shapes_layer_norm, true, RANKS(1, 6)},
    {"SkipLayerNormalization", "b,s,h;b,s,h;h;h;h", NULL, true, 0},
    {"SkipSimplifiedLayerNormalization", "b,s,h;b,s,h;h;h", NULL, true, 0},
    {"Slice", NULL, shapes_first, true, RANKS(1, 6)},
    {"Softmax", NULL, shapes_any, true, RANKS(1, 6)},
    {"SpaceToDepth", "n,c,z*h,z*w", NULL, true, 0},
    {"Split", NULL, shapes_split, true, RANKS(1, 6)},
    {"Squeeze", NULL, shapes_first, false, 0},
    {"Tile", NULL, shapes_first, true, 0},
    {"TopK", NULL, shapes_first, true, RANKS(1, 6)},
    {"Transpose", NULL, shapes_any, true, 0},
    {"Trilu", NULL, shapes_first, true, RANKS(2, 6)},
    {"Unsqueeze", NULL, shapes_first, false, 0},
    {"Where", NULL, shapes_broadcast, false, 0},
};

static const ShapeRow *row_of(const OpSchema *op) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].op[0] == op->name[0] && strcmp(rows[i].op, op->name) == 0) return &rows[i];
    return NULL;
}

static bool is_reduction(const OpSchema *op) { return strncmp(op->name, "Reduce", 6) == 0; }

uint32_t op_ranks(const OpSchema *op, int i) {
    const ShapeRow *row = row_of(op);
    if (!row) return ~0u;
    if (!row->words || row->shapes) return (i == 0 || row->shapes == shapes_matmul) && row->ranks ? row->ranks : ~0u;
    Words words;
    const char *p = row->words - 1;
    int k = 0;
    do p = read_words(p + 1, &words);
    while (*p == ';' && k++ < i);
    return k == i ? ranks_of_words(&words) : ~0u;
}

bool op_keeps_rank(const OpSchema *op) {
    const ShapeRow *row = row_of(op);
    return row ? row->keeps_rank : op->flags & OP_ELEMENTWISE && !op_inputs(op)[1].name;
}

bool ask_shapes(Ask *a) {
    const ShapeRow *row = row_of(a->op);
    if (!row && is_reduction(a->op)) return any_shape(a, 0);
    if (!row) return a->op->flags & OP_ELEMENTWISE ? shapes_broadcast(a) : shapes_any(a);
    return row->shapes ? row->shapes(a) : follow_letters(a, row->words);
}
