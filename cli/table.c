/* SPDX-License-Identifier: Apache-2.0 */
/* Tables that fit the terminal. */
#include "cli.h"

#include <assert.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

struct Table {
    size_t n_columns, n_cells, capacity;
    const char *const *columns;
    char **cells;
    size_t *widths;
};

/* Columns that text takes: one a character, which is right for all but the double-width ones. */
static size_t columns_of(const char *text) {
    size_t n = 0;
    for (; *text; text++) n += ((unsigned char)*text & 0xc0) != 0x80;
    return n;
}

Table *table_new(size_t n_columns, const char *const *columns) {
    assert(n_columns > 0);
    Table *table = need(calloc(1, sizeof *table));
    table->n_columns = n_columns;
    table->columns = columns;
    table->widths = need(calloc(n_columns, sizeof *table->widths));
    for (size_t i = 0; i < n_columns; i++) table->widths[i] = columns_of(columns[i] + 1);
    return table;
}

/* A name may hold anything: what would move the cursor is shown as '?'. */
static void make_printable(char *text) {
    for (; *text; text++)
        if ((unsigned char)*text < 32 || *text == 127) *text = '?';
}

void table_cell(Table *table, const char *format, ...) {
    va_list list;
    va_start(list, format);
    int n = vsnprintf(NULL, 0, format, list);
    va_end(list);
    char *text = need(malloc((size_t)n + 1));
    va_start(list, format);
    vsnprintf(text, (size_t)n + 1, format, list);
    va_end(list);
    make_printable(text);
    if (table->n_cells == table->capacity) {
        table->capacity = table->capacity * 2 + 16;
        table->cells = need(realloc(table->cells, table->capacity * sizeof *table->cells));
    }
    size_t *width = &table->widths[table->n_cells % table->n_columns];
    if (columns_of(text) > *width) *width = columns_of(text);
    table->cells[table->n_cells++] = text;
}

/* Takes from the widest column that may be cut until the table fits. */
static void fit(Table *table, size_t room) {
    for (;;) {
        size_t total = 0, widest = SIZE_MAX;
        for (size_t i = 0; i < table->n_columns; i++) {
            total += table->widths[i] + 2;
            if (table->columns[i][0] != '~' || table->widths[i] <= 8) continue;
            if (widest == SIZE_MAX || table->widths[i] > table->widths[widest]) widest = i;
        }
        if (total <= room || widest == SIZE_MAX) return;
        table->widths[widest]--;
    }
}

/* Bytes of the first n characters. */
static size_t bytes_of(const char *text, size_t n) {
    size_t i = 0;
    for (; text[i]; i++)
        if (((unsigned char)text[i] & 0xc0) != 0x80 && n-- == 0) break;
    return i;
}

static void print_cell(const Table *table, size_t column, const char *text, bool last, FILE *stream) {
    size_t width = table->widths[column], n = columns_of(text);
    if (n > width) {
        fprintf(stream, "%.*s...", (int)bytes_of(text, width - 3), text);
    } else if (table->columns[column][0] == '>') {
        fprintf(stream, "%*s%s", (int)(width - n), "", text);
    } else {
        fputs(text, stream);
        if (!last) fprintf(stream, "%*s", (int)(width - n), "");
    }
    if (!last) fputs("  ", stream);
}

void table_print(Table *table, FILE *stream) {
    assert(table->n_columns > 0);
    size_t n = table->n_columns, room = (size_t)term_width(stream);
    if (room) fit(table, room);
    fprintf(stream, "  %s", colour(stream, DIM));
    for (size_t i = 0; i < n; i++) print_cell(table, i, table->columns[i] + 1, i + 1 == n, stream);
    fprintf(stream, "%s\n", colour(stream, PLAIN));
    for (size_t i = 0; i < table->n_cells; i++) {
        if (i % n == 0) fputs("  ", stream);
        print_cell(table, i % n, table->cells[i], i % n + 1 == n, stream);
        if (i % n + 1 == n) fputc('\n', stream);
        free(table->cells[i]);
    }
    free(table->cells);
    free(table->widths);
    free(table);
}
