"""The grammars of tree-sitter, and the queries that find definitions with them.

``SourceParser`` uses them. Each pattern of a query has two captures: the definition, under the name of its kind, and
``name``. If two patterns capture the same name, the first pattern takes precedence.

Source: the node types of each grammar (``node-types.json`` of its repository).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Final

from attrs import frozen

__all__ = ["Grammar", "grammar_of"]

_PYTHON: Final = """
(decorated_definition definition: (function_definition name: (_) @name)) @function
(decorated_definition definition: (class_definition name: (_) @name)) @class
(function_definition name: (_) @name) @function
(class_definition name: (_) @name) @class
(module (expression_statement (assignment left: (identifier) @name) @variable))
(class_definition body: (block (expression_statement (assignment left: (identifier) @name) @variable)))
(type_alias_statement left: (_) @name) @type
"""
_ECMASCRIPT: Final = """
(function_declaration name: (_) @name) @function
(generator_function_declaration name: (_) @name) @function
(variable_declarator name: (identifier) @name value: [(arrow_function) (function_expression)]) @function
(class_declaration name: (_) @name) @class
(method_definition name: (_) @name) @method
(program (_ (variable_declarator name: (identifier) @name) @variable))
(program (export_statement (_ (variable_declarator name: (identifier) @name) @variable)))
"""
_JAVASCRIPT: Final = f"""{_ECMASCRIPT}
(field_definition property: (_) @name) @field
"""
_TYPESCRIPT: Final = f"""{_ECMASCRIPT}
(function_signature name: (_) @name) @function
(abstract_class_declaration name: (_) @name) @class
(abstract_method_signature name: (_) @name) @method
(public_field_definition name: (_) @name) @field
(interface_declaration name: (_) @name) @interface
(interface_body (method_signature name: (_) @name) @method)
(interface_body (property_signature name: (_) @name) @property)
(type_alias_declaration name: (_) @name) @type
(enum_declaration name: (_) @name) @enum
(internal_module name: (_) @name) @namespace
(module name: (_) @name) @namespace
"""
_GO: Final = """
(function_declaration name: (_) @name) @function
(method_declaration name: (_) @name) @method
(type_spec name: (_) @name) @type
(type_alias name: (_) @name) @type
(field_declaration name: (_) @name) @field
(method_elem name: (_) @name) @method
(source_file (const_declaration (const_spec name: (identifier) @name) @constant))
(source_file (var_declaration (var_spec name: (identifier) @name) @variable))
(source_file (var_declaration (var_spec_list (var_spec name: (identifier) @name) @variable)))
"""
_RUST: Final = """
(function_item name: (_) @name) @function
(function_signature_item name: (_) @name) @function
(macro_definition name: (_) @name) @function
(struct_item name: (_) @name) @struct
(union_item name: (_) @name) @struct
(enum_item name: (_) @name) @enum
(enum_variant name: (_) @name) @enum_member
(field_declaration name: (_) @name) @field
(trait_item name: (_) @name) @interface
(impl_item type: (_) @name) @class
(mod_item name: (_) @name) @module
(type_item name: (_) @name) @type
(const_item name: (_) @name) @constant
(static_item name: (_) @name) @variable
"""
_JAVA: Final = """
(class_declaration name: (_) @name) @class
(record_declaration name: (_) @name) @class
(interface_declaration name: (_) @name) @interface
(annotation_type_declaration name: (_) @name) @interface
(enum_declaration name: (_) @name) @enum
(enum_constant name: (_) @name) @enum_member
(method_declaration name: (_) @name) @method
(constructor_declaration name: (_) @name) @constructor
(compact_constructor_declaration name: (_) @name) @constructor
(field_declaration declarator: (variable_declarator name: (_) @name)) @field
"""
# Only declarations in these nodes are captured. Those in a function are local, and some look like functions.
_C_SCOPES: Final = ("translation_unit", "preproc_ifdef", "preproc_if", "preproc_else", "declaration_list")
_C: Final = """
(function_definition declarator: (_) @name) @function
(struct_specifier name: (_) @name body: (_)) @struct
(union_specifier name: (_) @name body: (_)) @struct
(enum_specifier name: (_) @name body: (_)) @enum
(type_definition declarator: (_) @name) @type
(field_declaration declarator: (_) @name) @field
""" + "".join(f"({place} (declaration declarator: (_) @name) @variable)\n" for place in _C_SCOPES)
_CPP: Final = f"""{_C}
(class_specifier name: (_) @name body: (_)) @class
(namespace_definition name: (_) @name) @namespace
(alias_declaration name: (_) @name) @type
(concept_definition name: (_) @name) @interface
(field_declaration_list (declaration declarator: (_) @name) @method)
"""


@frozen
class Grammar:
    """The grammar of a language.

    Attributes:
        package: The module of the grammar. The PyPI package has the same name.
        query: The query that finds definitions.
        function: The function of the module that returns the language.
    """

    package: str
    query: str
    function: str = "language"

    @property
    def is_installed(self) -> bool:
        """True if the grammar and tree-sitter can be imported."""
        return find_spec(self.package) is not None and find_spec("tree_sitter") is not None


_BY_SUFFIXES: Final[Mapping[tuple[str, ...], Grammar]] = {
    (".py", ".pyi"): Grammar("tree_sitter_python", _PYTHON),
    (".js", ".jsx", ".mjs", ".cjs"): Grammar("tree_sitter_javascript", _JAVASCRIPT),
    (".ts", ".mts", ".cts"): Grammar("tree_sitter_typescript", _TYPESCRIPT, "language_typescript"),
    (".tsx",): Grammar("tree_sitter_typescript", _TYPESCRIPT, "language_tsx"),
    (".go",): Grammar("tree_sitter_go", _GO),
    (".rs",): Grammar("tree_sitter_rust", _RUST),
    (".java",): Grammar("tree_sitter_java", _JAVA),
    (".c",): Grammar("tree_sitter_c", _C),
    # Almost all C headers are valid C++, but C++ headers are not valid C.
    (".h", ".cc", ".cpp", ".cxx", ".hh", ".hpp", ".hxx"): Grammar("tree_sitter_cpp", _CPP),
}
_GRAMMARS: Final = {suffix: grammar for suffixes, grammar in _BY_SUFFIXES.items() for suffix in suffixes}


def grammar_of(path: str) -> Grammar | None:
    """Return the grammar for a file name; ``None`` if there is none."""
    return _GRAMMARS.get(os.path.splitext(path)[1].lower())
