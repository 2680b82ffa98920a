/* SPDX-License-Identifier: Apache-2.0 */
/* The table of ops is sorted as op_find's search wants it, and each op is found under its own name. */
#include <setjmp.h>
#include <stddef.h>
#include <stdarg.h>

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

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sorted), cmocka_unit_test(test_found)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
