# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
#
# The site of the documents: docs/, the README and the manual pages, by Sphinx.

docs_dir() {
    echo "$CACHE/docs/$(hash_files "$REPO" docs README.md CONTRIBUTING.md \
        CHANGELOG.md guest-lib/man scripts/unetmm_tools/build/site.py)"
}

# The packages for it, installed only on request.
setup_docs() {
    setup_more "${PACKAGES_DOCS[@]}"
    # Sphinx belongs to Debian's Python, which may not be the first one of PATH.
    /usr/bin/python3 -c 'import sphinx, myst_parser, furo' 2>/dev/null ||
        die "there is no Sphinx with furo and myst-parser: install them (Debian's packages are ${PACKAGES_DOCS[*]})"
    mkdir -p "$CACHE/docs"
    product docs "building the site of the documents" "$(docs_dir)" \
        "$REPO/scripts/unetmm_tools/build/site.py" "$REPO"
    use_product docs "$(docs_dir)"
    note "The site: file://$(docs_dir)/html/index.html"
}
