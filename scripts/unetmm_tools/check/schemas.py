# SPDX-License-Identifier: GPL-2.0-or-later
"""The JSON schemas of the tools' output, for tests."""
import json
import os

import jsonschema

from unetmm_tools import REPO

TOOLS = os.path.join(REPO, "guest-lib", "tools")


def validator(name):
    """The validator of guest-lib/tools/NAME.schema.json."""
    with open(os.path.join(TOOLS, f"{name}.schema.json"),
              encoding="utf-8") as file:
        found = json.load(file)
    jsonschema.Draft7Validator.check_schema(found)
    return jsonschema.Draft7Validator(found)


def row(name, text):
    """The object in one line of output, which must be as the schema says."""
    found = json.loads(text)
    try:
        validator(name).validate(found)
    except jsonschema.ValidationError as error:
        raise ValueError(f"{name}.schema.json: {error.message}: {text}") from error
    return found
