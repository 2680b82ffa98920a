/* SPDX-License-Identifier: Apache-2.0 */
/* The table of ops is sorted as op_find's search wants it, and each op is found under its own name.

       test_op_table --schemas      prints each op's operands, results and attributes, a line of JSON an op */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include "ops/op.h"

#include <cmocka.h>

static void test_sorted(void **state) {
    (void)state;
    size_t n;
    const OpSchema *const *ops = op_table(&n);
    assert_true(n > 100);
    for (size_t i = 1; i < n; i++) {
        const char *before = ops[i - 1]->domain ? ops[i - 1]->domain : "",
                   *domain = ops[i]->domain ? ops[i]->domain : "";
        int c = strcmp(before, domain);
        if (c > 0 || (c == 0 && strcmp(ops[i - 1]->name, ops[i]->name) >= 0))
            fail_msg("ops.def: %s.%s must not stand before %s.%s", before, ops[i - 1]->name, domain, ops[i]->name);
    }
}

static void test_found(void **state) {
    (void)state;
    size_t n;
    const OpSchema *const *ops = op_table(&n);
    for (size_t i = 0; i < n; i++) {
        Str domain = str_of(ops[i]->domain ? ops[i]->domain : "");
        assert_ptr_equal(op_find(domain, str_of(ops[i]->name)), ops[i]);
        assert_true(ops[i]->summary && ops[i]->summary[0]);
        assert_true(ops[i]->regions || ops[i]->reference || strcmp(ops[i]->name, "Const") == 0);
    }
    assert_null(op_find(STR(""), STR("NoSuchOp")));
    assert_ptr_equal(op_find(STR("ai.onnx"), STR("Add")), op_find(STR(""), STR("Add")));
}

/* Tables of ours are as long as that. */
static void test_lists_are_short(void **state) {
    (void)state;
    size_t n, k;
    const OpSchema *const *ops = op_table(&n);
    for (size_t i = 0; i < n; i++) {
        for (k = 0; op_inputs(ops[i])[k].name; k++) assert_true(k < OP_MAX_IN_SPECS);
        for (k = 0; op_outputs(ops[i])[k].name; k++) assert_true(k < OP_MAX_OUT_SPECS);
        for (k = 0; op_attrs(ops[i])[k].name; k++) assert_true(k < OP_MAX_ATTR_SPECS);
    }
}

static void print_types(TypeSet set) {
    static const char *const kinds[] = {"seq", "opt", "map"};
    const char *comma = "";
    for (int dtype = 1; dtype < TN_DTYPE_END; dtype++) {
        if (!(set & TS(dtype))) continue;
        printf("%s\"%s\"", comma, dtype_name((tn_dtype)dtype));
        comma = ", ";
    }
    for (int k = 0; k < 3; k++) {
        if (!(set & TS_SEQUENCE << k)) continue;
        printf("%s\"%s\"", comma, kinds[k]);
        comma = ", ";
    }
}

static void print_operands(const OpSchema *op, bool results) {
    const OperandSpec *specs = results ? op_outputs(op) : op_inputs(op);
    for (size_t i = 0; specs[i].name; i++) {
        printf("%s{\"name\": \"%s\", \"group\": \"%.1s\", \"optional\": %d, \"variadic\": %d, \"types\": [",
               i ? ", " : "", specs[i].name, &specs[i].group, !!(specs[i].flags & OPERAND_OPTIONAL),
               !!(specs[i].flags & OPERAND_VARIADIC));
        print_types(specs[i].types);
        printf("]}");
    }
}

static void print_schemas(void) {
    size_t n;
    const OpSchema *const *ops = op_table(&n);
    for (size_t i = 0; i < n; i++) {
        printf("{\"domain\": \"%s\", \"name\": \"%s\", \"inputs\": [", ops[i]->domain ? ops[i]->domain : "",
               ops[i]->name);
        print_operands(ops[i], false);
        printf("], \"outputs\": [");
        print_operands(ops[i], true);
        printf("], \"attributes\": {");
        for (const AttrSpec *a = op_attrs(ops[i]); a->name; a++)
            printf("%s\"%s\": %d", a != op_attrs(ops[i]) ? ", " : "", a->name, !!(a->flags & ATTR_REQUIRED));
        printf("}}\n");
    }
}

int main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "--schemas") == 0) {
        print_schemas();
        return 0;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sorted), cmocka_unit_test(test_found),
                                       cmocka_unit_test(test_lists_are_short)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
