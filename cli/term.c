/* SPDX-License-Identifier: Apache-2.0 */
/* What only a terminal gets: colours, a width to fit, a bar of progress. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static bool is_terminal(FILE *stream) { return isatty(fileno(stream)) == 1; }

const char *colour(FILE *stream, Colour c) {
    static const char *const escapes[] = {"\033[0m", "\033[1m", "\033[2m", "\033[31m", "\033[32m", "\033[33m"};
    const char *no_colour = getenv("NO_COLOR"), *term = getenv("TERM");
    if ((no_colour && *no_colour) || !term || strcmp(term, "dumb") == 0 || !is_terminal(stream)) return "";
    return escapes[c];
}

int term_width(FILE *stream) {
    struct winsize size;
    if (!is_terminal(stream)) return 0;
    if (ioctl(fileno(stream), TIOCGWINSZ, &size) != 0 || size.ws_col < 20) return 80;
    return size.ws_col;
}

/* ---- progress ------------------------------------------------------------------------------------------------- */

static struct {
    double started, drawn;
    bool visible;
} bar;

void progress(const char *what, size_t done, size_t of) {
    enum { WIDTH = 30 };
    double now = seconds_now();
    if (bar.started == 0) bar.started = now;
    if (now - bar.started < 1 || (bar.visible && now - bar.drawn < 0.1) || of == 0 || !is_terminal(stderr)) return;
    int full = (int)(WIDTH * done / of), room = term_width(stderr) - WIDTH - 24;
    fprintf(stderr, "\r\033[K[%.*s%.*s] %zu/%zu %.*s", full, "##############################", WIDTH - full,
            "..............................", done, of, room < 0 ? 0 : room, what);
    fflush(stderr);
    bar.drawn = now;
    bar.visible = true;
}

void progress_end(void) {
    if (bar.visible) fputs("\r\033[K", stderr);
    bar.visible = false;
    bar.drawn = 0;
}
