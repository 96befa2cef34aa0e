//! What a name means by where it stands: for each language, tables of
//! (kind of the parent node, field of the parent) that make an identifier a
//! definition, a call, or part of a longer name.
//!
//! The tables replace the grammars' own `TAGS_QUERY`: those miss constants,
//! fields and enum members, and matching them needs each node's parent, which
//! costs the square of a file's size in a hostile file. A test holds that all
//! that a `TAGS_QUERY` finds is found here.

use self::When::{Always, Attr, Body, First, IfFunction, NotLocal, Owner, Upper, Value};
use super::SymbolKind::{
    self, Class, Constant, Enum, Field, Function, Interface, Macro, Method, Module, Property, Struct, Trait,
    Type, Union, Variable, Variant,
};
use crate::corpus::grammar::Language;

/// When a rule applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum When {
    Always,
    /// Outside of any function.
    NotLocal,
    /// The node has a `body`; without one it is only mentioned.
    Body,
    /// The identifier is the node's first named child.
    First,
    /// The node's field of this name holds a function or class.
    IfFunction(&'static str),
    /// A function or class when this field holds one, else if not local.
    Value(&'static str),
    /// Ruby: the identifier is a constant.
    Upper,
    /// Ruby: a symbol given to `attr_reader` and the like.
    Attr,
    /// C: a function's prototype, or else a variable.
    Declarator,
    /// Go: the kind follows from the type's own node.
    GoType,
    /// No definition: names the type that the methods inside belong to.
    Owner,
}

/// One way for an identifier to be a definition.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rule {
    pub(super) parent: &'static str,
    /// Field of the parent that the identifier is in; empty for none.
    pub(super) field: &'static str,
    pub(super) kind: SymbolKind,
    pub(super) when: When,
}

/// All tables of a language.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    /// Leaves that are names.
    pub(super) names: &'static [&'static str],
    pub(super) defines: &'static [Rule],
    /// Nodes between a name and the node that it names, as (kind, field).
    pub(super) through: &'static [(&'static str, &'static str)],
    /// Nodes between a name and the call that calls it.
    pub(super) callee: &'static [(&'static str, &'static str)],
    pub(super) calls: &'static [(&'static str, &'static str)],
    /// Nodes whose assignments are local.
    pub(super) scopes: &'static [&'static str],
    /// Literals in quotes, which hold no names unless a letter `f` or `t` stands before them.
    pub(super) literals: &'static [&'static str],
}

const fn def(parent: &'static str, field: &'static str, kind: SymbolKind) -> Rule {
    Rule { parent, field, kind, when: Always }
}

const fn when(parent: &'static str, field: &'static str, kind: SymbolKind, when: When) -> Rule {
    Rule { parent, field, kind, when }
}

/// The tables of a language.
pub(super) fn rules(language: Language) -> Rules {
    match language {
        Language::Python => PYTHON,
        Language::JavaScript => JAVASCRIPT,
        Language::TypeScript | Language::Tsx => TYPESCRIPT,
        Language::Go => GO,
        Language::Rust => RUST,
        Language::Java => JAVA,
        Language::Ruby => RUBY,
        Language::C => C,
        Language::Cpp => CPP,
        Language::CSharp => CSHARP,
        Language::Php => PHP,
    }
}

const PYTHON: Rules = Rules {
    names: &["identifier"],
    defines: &[
        def("function_definition", "name", Function),
        def("class_definition", "name", Class),
        when("assignment", "left", Variable, NotLocal),
        def("type_alias_statement", "left", Type),
    ],
    through: &[
        ("pattern_list", ""),
        ("tuple_pattern", ""),
        ("list_pattern", ""),
        ("list_splat_pattern", ""),
        ("type", ""),
        ("generic_type", ""),
    ],
    callee: &[("attribute", "attribute")],
    calls: &[("call", "function")],
    scopes: &["function_definition", "lambda"],
    literals: &["string"],
};

const JAVASCRIPT: Rules = Rules {
    names: &[
        "identifier",
        "property_identifier",
        "private_property_identifier",
        "shorthand_property_identifier",
        "shorthand_property_identifier_pattern",
        "statement_identifier",
    ],
    defines: &[
        def("function_declaration", "name", Function),
        def("generator_function_declaration", "name", Function),
        def("function_expression", "name", Function),
        def("generator_function", "name", Function),
        def("class_declaration", "name", Class),
        def("class", "name", Class),
        def("method_definition", "name", Method),
        def("field_definition", "property", Field),
        when("variable_declarator", "name", Variable, Value("value")),
        when("assignment_expression", "left", Function, IfFunction("right")),
        when("pair", "key", Function, IfFunction("value")),
    ],
    through: &[("member_expression", "property")],
    callee: &[("member_expression", "property")],
    calls: &[
        ("call_expression", "function"),
        ("new_expression", "constructor"),
        ("jsx_opening_element", "name"),
        ("jsx_self_closing_element", "name"),
    ],
    scopes: JS_SCOPES,
    literals: &["string"],
};

const JS_SCOPES: &[&str] = &[
    "function_declaration",
    "generator_function_declaration",
    "function_expression",
    "generator_function",
    "arrow_function",
    "method_definition",
    "class_static_block",
];

const TYPESCRIPT: Rules = Rules {
    names: &[
        "identifier",
        "property_identifier",
        "private_property_identifier",
        "shorthand_property_identifier",
        "shorthand_property_identifier_pattern",
        "statement_identifier",
        "type_identifier",
    ],
    defines: &[
        def("function_declaration", "name", Function),
        def("generator_function_declaration", "name", Function),
        def("function_expression", "name", Function),
        def("generator_function", "name", Function),
        def("function_signature", "name", Function),
        def("class_declaration", "name", Class),
        def("abstract_class_declaration", "name", Class),
        def("class", "name", Class),
        def("method_definition", "name", Method),
        def("method_signature", "name", Method),
        def("abstract_method_signature", "name", Method),
        def("public_field_definition", "name", Field),
        def("property_signature", "name", Field),
        def("interface_declaration", "name", Interface),
        def("type_alias_declaration", "name", Type),
        def("enum_declaration", "name", Enum),
        def("enum_body", "name", Variant),
        def("enum_assignment", "name", Variant),
        def("internal_module", "name", Module),
        def("module", "name", Module),
        when("variable_declarator", "name", Variable, Value("value")),
        when("assignment_expression", "left", Function, IfFunction("right")),
        when("pair", "key", Function, IfFunction("value")),
    ],
    through: &[("member_expression", "property"), ("nested_identifier", "property")],
    callee: &[("member_expression", "property")],
    calls: JAVASCRIPT.calls,
    scopes: JS_SCOPES,
    literals: &["string"],
};

const GO: Rules = Rules {
    names: &["identifier", "field_identifier", "type_identifier", "package_identifier"],
    defines: &[
        def("function_declaration", "name", Function),
        def("method_declaration", "name", Method),
        when("method_declaration", "receiver", Type, Owner),
        when("type_spec", "name", Type, When::GoType),
        def("type_alias", "name", Type),
        when("const_spec", "name", Constant, NotLocal),
        when("var_spec", "name", Variable, NotLocal),
        def("field_declaration", "name", Field),
        def("method_elem", "name", Method),
    ],
    through: &[
        ("parameter_list", ""),
        ("parameter_declaration", "type"),
        ("pointer_type", ""),
        ("parenthesized_type", ""),
        ("generic_type", "type"),
    ],
    callee: &[("selector_expression", "field"), ("parenthesized_expression", "")],
    calls: &[("call_expression", "function")],
    scopes: &["function_declaration", "method_declaration", "func_literal"],
    literals: &[],
};

const RUST: Rules = Rules {
    names: &["identifier", "field_identifier", "type_identifier", "shorthand_field_identifier"],
    defines: &[
        def("function_item", "name", Function),
        def("function_signature_item", "name", Function),
        def("struct_item", "name", Struct),
        def("enum_item", "name", Enum),
        def("union_item", "name", Union),
        def("trait_item", "name", Trait),
        def("type_item", "name", Type),
        def("associated_type", "name", Type),
        def("mod_item", "name", Module),
        def("macro_definition", "name", Macro),
        def("const_item", "name", Constant),
        def("static_item", "name", Constant),
        def("enum_variant", "name", Variant),
        def("field_declaration", "name", Field),
        when("impl_item", "type", Type, Owner),
    ],
    through: &[("generic_type", "type"), ("scoped_type_identifier", "name"), ("reference_type", "type")],
    callee: &[
        ("field_expression", "field"),
        ("scoped_identifier", "name"),
        ("generic_function", "function"),
        ("scoped_type_identifier", "name"),
    ],
    calls: &[("call_expression", "function"), ("macro_invocation", "macro"), ("struct_expression", "name")],
    scopes: &["function_item", "closure_expression"],
    literals: &[],
};

const JAVA: Rules = Rules {
    names: &["identifier", "type_identifier"],
    defines: &[
        def("class_declaration", "name", Class),
        def("interface_declaration", "name", Interface),
        def("annotation_type_declaration", "name", Interface),
        def("enum_declaration", "name", Enum),
        def("record_declaration", "name", Class),
        def("method_declaration", "name", Method),
        def("annotation_type_element_declaration", "name", Method),
        def("constructor_declaration", "name", Method),
        def("compact_constructor_declaration", "name", Method),
        def("enum_constant", "name", Variant),
        def("field_declaration", "declarator", Field),
        def("constant_declaration", "declarator", Constant),
    ],
    through: &[("variable_declarator", "name")],
    callee: &[("generic_type", ""), ("scoped_type_identifier", "")],
    calls: &[("method_invocation", "name"), ("object_creation_expression", "type")],
    scopes: &[
        "method_declaration",
        "constructor_declaration",
        "compact_constructor_declaration",
        "lambda_expression",
        "static_initializer",
    ],
    literals: &[],
};

const RUBY: Rules = Rules {
    names: &[
        "identifier",
        "constant",
        "instance_variable",
        "class_variable",
        "global_variable",
        "simple_symbol",
        "hash_key_symbol",
        "operator",
    ],
    defines: &[
        def("method", "name", Method),
        def("singleton_method", "name", Method),
        def("class", "name", Class),
        def("module", "name", Module),
        def("alias", "name", Method),
        when("assignment", "left", Constant, Upper),
        when("argument_list", "", Field, Attr),
    ],
    through: &[("setter", "name"), ("scope_resolution", "name"), ("left_assignment_list", "")],
    callee: &[],
    calls: &[("call", "method")],
    scopes: &["method", "singleton_method", "lambda", "block", "do_block"],
    literals: &[],
};

const C: Rules = Rules {
    names: &["identifier", "field_identifier", "type_identifier", "statement_identifier"],
    defines: &[
        def("function_definition", "declarator", Function),
        when("declaration", "declarator", Variable, When::Declarator),
        when("field_declaration", "declarator", Field, When::Declarator),
        def("type_definition", "declarator", Type),
        when("struct_specifier", "name", Struct, Body),
        when("union_specifier", "name", Union, Body),
        when("enum_specifier", "name", Enum, Body),
        def("enumerator", "name", Variant),
        def("preproc_def", "name", Macro),
        def("preproc_function_def", "name", Macro),
    ],
    through: &[
        ("function_declarator", "declarator"),
        ("pointer_declarator", "declarator"),
        ("array_declarator", "declarator"),
        ("init_declarator", "declarator"),
        ("parenthesized_declarator", ""),
        ("attributed_declarator", ""),
    ],
    callee: &[("field_expression", "field")],
    calls: &[("call_expression", "function")],
    scopes: &["compound_statement", "parameter_list"],
    literals: &[],
};

const CPP: Rules = Rules {
    names: &[
        "identifier",
        "field_identifier",
        "type_identifier",
        "namespace_identifier",
        "statement_identifier",
        "operator_name",
    ],
    defines: &[
        def("function_definition", "declarator", Function),
        when("declaration", "declarator", Variable, When::Declarator),
        when("field_declaration", "declarator", Field, When::Declarator),
        def("type_definition", "declarator", Type),
        when("struct_specifier", "name", Struct, Body),
        when("union_specifier", "name", Union, Body),
        when("enum_specifier", "name", Enum, Body),
        when("class_specifier", "name", Class, Body),
        def("enumerator", "name", Variant),
        def("preproc_def", "name", Macro),
        def("preproc_function_def", "name", Macro),
        def("namespace_definition", "name", Module),
        def("alias_declaration", "name", Type),
        def("concept_definition", "name", Type),
    ],
    through: &[
        ("function_declarator", "declarator"),
        ("pointer_declarator", "declarator"),
        ("array_declarator", "declarator"),
        ("init_declarator", "declarator"),
        ("parenthesized_declarator", ""),
        ("attributed_declarator", ""),
        ("reference_declarator", ""),
        ("qualified_identifier", "name"),
        ("template_function", "name"),
        ("template_type", "name"),
        ("destructor_name", ""),
        ("nested_namespace_specifier", ""),
    ],
    callee: &[
        ("field_expression", "field"),
        ("qualified_identifier", "name"),
        ("template_function", "name"),
        ("template_method", "name"),
        ("template_type", "name"),
        ("dependent_name", ""),
    ],
    calls: &[("call_expression", "function"), ("new_expression", "type")],
    scopes: &["compound_statement", "parameter_list", "lambda_expression"],
    literals: &[],
};

const CSHARP: Rules = Rules {
    names: &["identifier"],
    defines: &[
        def("class_declaration", "name", Class),
        def("record_declaration", "name", Class),
        def("struct_declaration", "name", Struct),
        def("interface_declaration", "name", Interface),
        def("enum_declaration", "name", Enum),
        def("enum_member_declaration", "name", Variant),
        def("delegate_declaration", "name", Type),
        def("method_declaration", "name", Method),
        def("constructor_declaration", "name", Method),
        def("destructor_declaration", "name", Method),
        def("local_function_statement", "name", Function),
        def("property_declaration", "name", Property),
        def("event_declaration", "name", Property),
        def("namespace_declaration", "name", Module),
        def("file_scoped_namespace_declaration", "name", Module),
        def("field_declaration", "", Field),
        def("event_field_declaration", "", Field),
    ],
    through: &[("qualified_name", "name"), ("variable_declarator", "name"), ("variable_declaration", "")],
    callee: &[
        ("member_access_expression", "name"),
        ("member_binding_expression", "name"),
        ("conditional_access_expression", ""),
        ("generic_name", ""),
        ("qualified_name", "name"),
    ],
    calls: &[("invocation_expression", "function"), ("object_creation_expression", "type")],
    scopes: &[
        "method_declaration",
        "constructor_declaration",
        "destructor_declaration",
        "local_function_statement",
        "lambda_expression",
        "anonymous_method_expression",
        "accessor_declaration",
    ],
    literals: &[],
};

const PHP: Rules = Rules {
    names: &["name"],
    defines: &[
        def("class_declaration", "name", Class),
        def("interface_declaration", "name", Interface),
        def("trait_declaration", "name", Trait),
        def("enum_declaration", "name", Enum),
        def("enum_case", "name", Variant),
        def("function_definition", "name", Function),
        def("method_declaration", "name", Method),
        def("property_element", "name", Property),
        def("property_promotion_parameter", "name", Property),
        when("const_element", "", Constant, First),
    ],
    through: &[("variable_name", "")],
    callee: &[("qualified_name", "")],
    calls: &[
        ("function_call_expression", "function"),
        ("member_call_expression", "name"),
        ("nullsafe_member_call_expression", "name"),
        ("scoped_call_expression", "name"),
        ("object_creation_expression", ""),
    ],
    scopes: &["function_definition", "method_declaration", "anonymous_function", "arrow_function"],
    literals: &[],
};
