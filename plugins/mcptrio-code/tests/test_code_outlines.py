"""Outlines of files without a language server, with the real grammars of tree-sitter."""

from __future__ import annotations

import sys
from pathlib import Path
from textwrap import dedent

import pytest
from mcptrio_code.grammars import grammar_of

from .conftest import Connect, answer, refusal

NONE = {"python": {"command": [], "globs": []}, "typescript": {"command": [], "globs": []}}

SOURCES = {
    "a.py": """\
        X = 1
        Y: int
        type Z = list[int]

        @deco
        def outer(a):
            local = 1
            def inner(): pass

        class A(B):
            z = 3
            @property
            async def m(self):
                pass
        """,
    "a.ts": """\
        export const limit = 3;
        const handler = async (x: number) => { const y = x; };
        export interface Shape {
          area(): number;
          name: string;
        }
        export type T = { a: number };
        namespace N {
          export enum Color { Red }
        }
        @dec
        export abstract class Square implements Shape {
          private side = 1;
          constructor(a: number) {}
          abstract area(): number;
        }
        declare function g(x: string): void;
        """,
    "a.tsx": """\
        export const App = () => {
          const [a, setA] = useState(<b>{1}</b>);
          const onClick = () => {};
        };
        """,
    "a.js": """\
        class A {
          x = 1;
          static #p() {}
        }
        var q = 1;
        function* gen() {}
        const f = function () {};
        """,
    "a.go": """\
        package main
        const A, B = 1, 2
        var (
        \tx int
        )
        type Point struct {
        \tX, Y int
        }
        type Shape interface {
        \tArea() float64
        }
        func (p *Point) Len() int {
        \tvar local = 1
        \treturn local
        }
        type I = int
        """,
    "a.rs": """\
        pub const N: usize = 1;
        #[derive(Debug)]
        pub struct P<T> {
            pub x: T,
        }
        enum E {
            A,
        }
        trait Area {
            fn area(&self) -> f64;
        }
        impl<T> Area for P<T> {
            fn area(&self) -> f64 { let q = 1; 0.0 }
        }
        mod inner {
            pub fn f() {}
        }
        macro_rules! m { () => {} }
        """,
    "A.java": """\
        package x;
        public class A<T> extends B {
            private int a, b = 2;
            public A(int a) {}
            @Override
            public String toString() { int local = 1; return ""; }
            interface I {
                void f();
            }
            enum E {
                ONE;
            }
            record R(int x) {}
        }
        """,
    "a.c": """\
        #define N 3
        static int count, *other[3];
        struct point {
            int (*compare)(int);
        };
        typedef struct { int a; } T;
        enum color { RED };
        #ifdef N
        char *g(void) { int local; return 0; }
        #endif
        int main(int argc, char **argv)
        {
            int looks_like_a_function(number);
            return 0;
        }
        """,
    "a.h": """\
        #pragma once
        namespace a {
        template <typename T>
        class Box : public Base {
        public:
            Box(int x);
            ~Box() = default;
            T &get() const { return v; }
            bool operator==(const Box &o) const;
        private:
            T v;
        };
        using X = int;
        extern int g;
        }
        int a::free(int x) { std::lock_guard<std::mutex> lock(m); return x; }
        """,
}
OUTLINES = {
    "a.py": """\
        1: X = 1
        2: Y: int
        3: type Z = list[int]
        5-8: def outer(a):
          8: def inner(): pass
        10-14: class A(B):
          11: z = 3
          12-14: async def m(self):
        """,
    "a.ts": """\
        1: export const limit = 3;
        2: const handler = async (x: number) => { const y = x; };
        3-6: export interface Shape {
          4: area(): number;
          5: name: string;
        7: export type T = { a: number };
        8-10: namespace N {
          9: export enum Color { Red }
        12-16: export abstract class Square implements Shape {
          13: private side = 1;
          14: constructor(a: number) {}
          15: abstract area(): number;
        17: declare function g(x: string): void;
        """,
    "a.tsx": """\
        1-4: export const App = () => {
          3: const onClick = () => {};
        """,
    "a.js": """\
        1-4: class A {
          2: x = 1;
          3: static #p() {}
        5: var q = 1;
        6: function* gen() {}
        7: const f = function () {};
        """,
    "a.go": """\
        2: const A, B = 1, 2
        4: x int
        6-8: type Point struct {
          7: X, Y int
        9-11: type Shape interface {
          10: Area() float64
        12-15: func (p *Point) Len() int {
        16: type I = int
        """,
    "a.rs": """\
        1: pub const N: usize = 1;
        3-5: pub struct P<T> {
          4: pub x: T,
        6-8: enum E {
          7: A,
        9-11: trait Area {
          10: fn area(&self) -> f64;
        12-14: impl<T> Area for P<T> {
          13: fn area(&self) -> f64 { let q = 1; 0.0 }
        15-17: mod inner {
          16: pub fn f() {}
        18: macro_rules! m { () => {} }
        """,
    "A.java": """\
        2-14: public class A<T> extends B {
          3: private int a, b = 2;
          4: public A(int a) {}
          5-6: public String toString() { int local = 1; return ""; }
          7-9: interface I {
            8: void f();
          10-12: enum E {
            11: ONE;
          13: record R(int x) {}
        """,
    "a.c": """\
        2: static int count, *other[3];
        3-5: struct point {
          4: int (*compare)(int);
        6: typedef struct { int a; } T;
        7: enum color { RED };
        9: char *g(void) { int local; return 0; }
        11-15: int main(int argc, char **argv)
        """,
    "a.h": """\
        2-15: namespace a {
          4-12: class Box : public Base {
            6: Box(int x);
            7: ~Box() = default;
            8: T &get() const { return v; }
            9: bool operator==(const Box &o) const;
            11: T v;
          13: using X = int;
          14: extern int g;
        16: int a::free(int x) { std::lock_guard<std::mutex> lock(m); return x; }
        """,
}


async def test_file_of_each_language_has_an_outline(code_client: Connect, project: Path) -> None:
    async with code_client(servers=NONE) as client:
        for name, text in SOURCES.items():
            source = dedent(text)
            (project / name).write_text(source)
            found = await answer(client, "outline", path=name)
            assert found == f"{name}: {source.count(chr(10)) + 1} lines\n{dedent(OUTLINES[name]).rstrip()}"


async def test_program_that_is_not_installed_is_replaced_for_outlines(code_client: Connect) -> None:
    servers = {**NONE, "python": {"command": ["no-such-server"], "globs": ["*.py"]}}
    async with code_client(servers=servers) as client:
        found = await answer(client, "outline", path="shapes.py", limit=2, offset=1)
        assert found.splitlines()[1:] == [
            "6-9: class Shape:",
            "  7-9: def area(self) -> int:",
            "[2 of 6; continue with offset=3]",
        ]
        assert "'no-such-server' was not found in PATH" in await refusal(
            client, "definition", symbol="area", path="shapes.py"
        )


async def test_missing_grammar_is_named(code_client: Connect, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "a.go").write_text("package main\n")
    (project / "a.zz").write_text("x\n")
    # None is how Python marks a module that cannot be imported.
    monkeypatch.setitem(sys.modules, "tree_sitter_go", None)
    async with code_client(servers={"python": {"command": ["no-such-server"], "globs": ["*.py"]}}) as client:
        message = await refusal(client, "outline", path="a.go")
        assert message.startswith("no language server is configured for 'a.go'; configured: *.py, ")
        assert message.endswith("; for outlines, mcptrio-code[tree-sitter] is enough")
        assert "tree-sitter" not in await refusal(client, "outline", path="a.zz")
        monkeypatch.setitem(sys.modules, "tree_sitter", None)
        assert await refusal(client, "outline", path="shapes.py") == (
            "the language server python is not installed: 'no-such-server' was not found; "
            "for outlines, mcptrio-code[tree-sitter] is enough"
        )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        # tree-sitter tries both meanings of each parenthesis.
        ("*(a)(" * 400_000, "slow.cc: parsing the file took longer than 1 seconds (request_timeout)"),
        ("void f();\n" * 120_000, "slow.cc: tree-sitter: ValueError: expected at most 100000 definitions in the file"),
    ],
)
async def test_parsing_is_bounded(code_client: Connect, project: Path, text: str, message: str) -> None:
    (project / "slow.cc").write_text(text)
    async with code_client(servers=NONE, request_timeout=1 if text.startswith("*") else 60) as client:
        assert (await refusal(client, "outline", path="slow.cc")).startswith(message)


@pytest.mark.parametrize("text", ["", "\0", "((((", "class" * 1000, "😀 = 1\n", "def f(:\n" * 50, "class A:\n x=" * 9])
async def test_broken_source_has_an_outline_too(code_client: Connect, project: Path, text: str) -> None:
    (project / "broken.py").write_text(text)
    async with code_client(servers=NONE) as client:
        assert (await answer(client, "outline", path="broken.py")).startswith("broken.py: ")


def test_names_without_a_known_ending_have_no_grammar() -> None:
    assert grammar_of("Makefile") is None
    assert grammar_of(".py") is None
    assert grammar_of("A.PY") is grammar_of("a.pyi")
