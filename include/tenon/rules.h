/* SPDX-License-Identifier: Apache-2.0 */
/* Rewrite rules: which there are, those of one's own, and proofs. docs/rules.md is the manual of their language.
 *
 *     char *counterexample;
 *     if (tn_load_rules("my.rules", true, &counterexample) != TN_OK) ... tn_last_error(), counterexample ...
 *
 * The pass apply-rules applies all rules that are there when it runs. Functions fail as in tenon.h. */
#ifndef TENON_RULES_H
#define TENON_RULES_H

#include <tenon/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- what there is -------------------------------------------------------------------------------------------- */

typedef struct tn_rule_info {
    const char *name;    /* "fold_batchnorm_into_conv" */
    const char *set;     /* what it came with: "conv", or the path of a file */
    const char *summary; /* one line; "" */
    const char *text;    /* as written, without what follows the rule */
    int level;           /* applied from this opt level on */
    size_t line;         /* where it stands in its set */
} tn_rule_info;

/* The library's own first, then those that were added, in the order of their sets. Strings live until the thread's next
   call of one of these functions. TN_OUT_OF_RANGE; TN_NOT_FOUND with a suggestion. */
TN_API size_t tn_n_rules(void);
TN_API tn_status tn_rule_at(size_t i, tn_rule_info *info);
TN_API tn_status tn_rule_find(const char *name, tn_rule_info *info);

/* ---- proofs --------------------------------------------------------------------------------------------------- */

typedef enum tn_proof_outcome {
    TN_PROOF_HOLDS,      /* all instances gave the same answer on both sides */
    TN_PROOF_REFUTED,    /* one did not */
    TN_PROOF_NO_INSTANCE /* too few instances could be made: nothing is known */
} tn_proof_outcome;

/* Strings live as long as the call-back runs. */
typedef struct tn_rule_proof {
    tn_rule_info rule;
    tn_proof_outcome outcome;
    size_t instances;           /* compared */
    size_t tried;               /* drawn to find them */
    bool exact;                 /* no bit differed, NaN and infinities among the inputs included */
    double worst;               /* the largest difference, of the scale */
    const char *why;            /* it does not hold or is not known to; "" */
    const char *unseen;         /* it holds, but no instance had this: "%b absent"; "" */
    const char *counterexample; /* .tn: a small left side that the rule breaks, with presets for its inputs; "" */
} tn_rule_proof;

/* Zero means the default in each field. */
typedef struct tn_prove_options {
    const char *const *rules; /* names of rules, or of sets; none: all rules */
    size_t n_rules;
    size_t instances; /* of each rule that say something; 200 */
    uint64_t seed;    /* the same seed gives the same proofs */
    bool as_found;    /* counterexamples as they were found: making them small takes longer than finding them */
    bool (*done)(void *user, const tn_rule_proof *proof); /* after each rule; false: no more */
    void *user;
} tn_prove_options;

/* Draws instances of each rule's left side, and runs them before and after the rule on the reference kernels. TN_OK also
   when rules are refuted: `done` is told. TN_NOT_FOUND for a name. */
TN_API tn_status tn_rules_prove(const tn_prove_options *options);

/* ---- more rules ----------------------------------------------------------------------------------------------- */

/* Adds the rules of a file for the rest of the process. TN_INVALID_ARGUMENT names line and column of what is
   no rule. With `prove` each is proven first: when one does not hold, or cannot be proven, that is TN_INVALID_ARGUMENT too and
   none is added; *counterexample, unless NULL, is then .tn text to be given back with tn_free_text, or NULL. */
TN_API tn_status tn_load_rules(const char *path, bool prove, char **counterexample);
/* The same for text that a program or a plug-in brings; `name` is the set's. */
TN_API tn_status tn_register_rules(const char *text, const char *name, bool prove, char **counterexample);

#ifdef __cplusplus
}
#endif
#endif
