# SPDX-License-Identifier: Apache-2.0
# cmake -DOUT=x.c -DFOLDER=src/rules -P EmbedText.cmake: the rules there as C arrays, in a table by name that ends with an empty row.
set(code "/* Made from src/rules by cmake/EmbedText.cmake. */\n#include \"rewrite/rewrite.h\"\n")
set(rows "")
file(GLOB files "${FOLDER}/*.rules")
foreach(file ${files})
    get_filename_component(name "${file}" NAME_WE)
    file(READ "${file}" hex HEX)
    string(REGEX REPLACE "(..)" "0x\\1," bytes "${hex}")
    string(APPEND code "static const unsigned char text_${name}[] = {${bytes}0};\n")
    string(APPEND rows "    {\"${name}\", (const char *)text_${name}, sizeof text_${name} - 1},\n")
endforeach()
string(APPEND code "const RulesText rules_texts[] = {\n${rows}    {NULL, NULL, 0}};\n")
file(WRITE "${OUT}" "${code}")
