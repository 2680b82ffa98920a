/* SPDX-License-Identifier: Apache-2.0 */
/* .npz: a zip archive of .npy files. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>
#include <zip.h>

/* The member NAME.npy, or the only member; -1 after a message. */
static zip_int64_t find_member(zip_t *zip, const char *path, const char *name) {
    char *member = format_text("%s.npy", name);
    zip_int64_t n = zip_get_num_entries(zip, 0), found = zip_name_locate(zip, member, 0);
    const char *names[64];
    size_t n_names = 0;
    free(member);
    if (found >= 0) return found;
    if (n == 1) return 0;
    for (zip_int64_t i = 0; i < n && n_names < 64; i++) {
        const char *entry = zip_get_name(zip, (zip_uint64_t)i, 0);
        if (entry) names[n_names++] = entry;
    }
    report("\"%s\" holds no array \"%s\"%s", path, name, suggestion(name, names, n_names));
    return -1;
}

static int read_member(tn_context *context, zip_t *zip, zip_int64_t index, const char *path, tn_tensor **tensor) {
    zip_stat_t info;
    if (zip_stat_index(zip, (zip_uint64_t)index, 0, &info) != 0 || info.size > (zip_uint64_t)1 << 36)
        return report("\"%s\": a member has no sensible size", path);
    char *data = malloc(info.size + 1);
    zip_file_t *file = zip_fopen_index(zip, (zip_uint64_t)index, 0);
    int code = GO_ON;
    if (!data || !file || zip_fread(file, data, info.size) != (zip_int64_t)info.size)
        code = report("\"%s\": cannot be unpacked: %s", path, file ? "damaged or too large" : zip_strerror(zip));
    else if (tn_tensor_parse(context, "npy", data, info.size, tensor, NULL) != TN_OK) code = report_last_error();
    if (file) zip_fclose(file);
    free(data);
    return code;
}

int npz_load(tn_context *context, const char *path, const char *name, tn_tensor **tensor) {
    int error = 0;
    zip_t *zip = zip_open(path, ZIP_RDONLY, &error);
    if (!zip)
        return report("\"%s\" is no .npz file: %s", path,
                      error == ZIP_ER_NOZIP ? "not a zip archive" : "cannot be read");
    zip_int64_t index = find_member(zip, path, name);
    int code = index < 0 ? FAILED : read_member(context, zip, index, path, tensor);
    zip_discard(zip);
    return code;
}
