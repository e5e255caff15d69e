# SPDX-License-Identifier: GPL-2.0-or-later
"""The mutants of a C file: each is one small change of one statement.

A file is cut into tokens, not parsed: where a token's neighbours do not
tell (a declaration of a pointer looks like a product) the compiler refuses it, and the
runner draws another mutant.
"""

import collections
import re

Mutant = collections.namedtuple(
    "Mutant", "function line start end old new operator")

TOKEN = re.compile(r"""
    (?P<comment>/\*.*?\*/|//[^\n]*)
  | (?P<hash>^[ \t]*\#(?:[^\n\\]|\\.)*)
  | (?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
  | (?P<number>0[xX][0-9a-fA-F]+[uUlL]*|\d[\w.]*)
  | (?P<word>[A-Za-z_]\w*)
  | (?P<sign><<=|>>=|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|\.\.\.
      |[-+*/%&|^~!<>=?:;,.(){}\[\]])
  | (?P<space>\s+)
  | (?P<other>.)
""", re.X | re.S | re.M)

Token = collections.namedtuple("Token", "kind text start end")

RELATIONAL = {"<": ("<=", ">="), "<=": ("<", ">"), ">": (">=", "<="),
              ">=": (">", "<"), "==": ("!=",), "!=": ("==",)}
LOGICAL = {"&&": ("||",), "||": ("&&",)}
ARITHMETIC = {"+": ("-",), "-": ("+",), "*": ("+",), "/": ("*",), "%": ("/",),
              "<<": (">>",), ">>": ("<<",), "&": ("|",), "|": ("&",),
              "^": ("|",), "+=": ("-=",), "-=": ("+=",), "|=": ("&=",),
              "&=": ("|=",), "^=": ("|=",), "<<=": (">>=",), ">>=": ("<<=",),
              "*=": ("+=",), "/=": ("*=",), "++": ("--",), "--": ("++",)}
KEYWORDS = {"if", "else", "for", "while", "do", "switch", "case", "default",
            "return", "goto", "break", "continue", "sizeof", "typeof",
            "struct", "union", "enum", "static", "const", "extern", "typedef",
            "volatile", "register", "inline", "unsigned", "signed",
            "_Static_assert"}
# Statements that change nothing in a card, library or provider that is right
SILENT = re.compile(r"(trace_\w+|UNETMM_GUEST_ERR|UMFI_(WARN|INFO)|g_assert\w*|assert"
                    r"|g_autoptr|g_autofree|QEMU_BUILD_BUG_ON|G_STATIC_ASSERT"
                    r"|_Static_assert)$")
# Their numbers say how much there is at least: no program can tell that there is more
ALLOCATES = re.compile(r"(sys_calloc|calloc|g_new0?|g_malloc0?(_n)?)$")
OPENING, CLOSING = {"(": ")", "[": "]", "{": "}"}, {")", "]", "}"}


def tokens_of(text):
    """The tokens that mean something, in their order."""
    return [Token(match.lastgroup, match[0], match.start(), match.end())
            for match in TOKEN.finditer(text)
            if match.lastgroup not in ("comment", "hash", "space")]


class Source:
    """A file's text, its tokens, and the functions that they are in."""

    def __init__(self, text):
        self.text = text
        self.tokens = tokens_of(text)
        self.partner = self._partners()
        self.function = self._functions()
        self.silent = self._silent()

    def _partners(self):
        """For each bracket the index of the other one."""
        partner, stack = {}, []
        for i, token in enumerate(self.tokens):
            if token.kind != "sign":
                continue
            if token.text in OPENING:
                stack.append(i)
            elif token.text in CLOSING and stack:
                j = stack.pop()
                partner[i], partner[j] = j, i
        return partner

    def _functions(self):
        """For each token the name of the function whose body it is in."""
        names = [None] * len(self.tokens)
        i = 0
        while i < len(self.tokens):
            token = self.tokens[i]
            end = self.partner.get(i)
            if token.text != "{" or token.kind != "sign" or end is None:
                i += 1
                continue
            name = None
            if i and self.tokens[i - 1].text == ")":
                before = self.partner.get(i - 1, 0) - 1
                if before >= 0 and self.tokens[before].kind == "word":
                    name = self.tokens[before].text
            names[i + 1:end] = [name] * (end - i - 1)
            i = end + 1
        return names

    def _silent(self):
        """The indices of tokens in calls that only look or say."""
        inside = set()
        for i, token in enumerate(self.tokens):
            if token.kind == "word" and SILENT.match(token.text) and \
                    i + 1 < len(self.tokens) and \
                    self.tokens[i + 1].text == "(":
                inside.update(range(i, self.partner.get(i + 1, i) + 1))
        return inside

    def line(self, offset):
        """The number of the line that has this offset."""
        return self.text.count("\n", 0, offset) + 1

    def make(self, first, last, new, operator):
        """The mutant that has `new` in place of tokens first to last."""
        start, end = self.tokens[first].start, self.tokens[last].end
        return Mutant(self.function[first], self.line(start), start, end,
                      self.text[start:end], new, operator)

    def binary(self, i):
        """Is the sign at i between two operands?"""
        before = self.tokens[i - 1]
        return before.kind in ("number", "string") or \
            before.text in (")", "]") or \
            (before.kind == "word" and before.text not in KEYWORDS)

    def _sign(self, i):
        token = self.tokens[i]
        for table, operator in ((RELATIONAL, "relational"),
                                (LOGICAL, "logical"),
                                (ARITHMETIC, "arithmetic")):
            for new in table.get(token.text, ()):
                if token.text in ("+", "-", "*", "&") and not self.binary(i):
                    continue
                yield self.make(i, i, new, operator)
        if token.text == "!":
            yield self.make(i, i, "", "negation")

    def _enlarges(self, i):
        """Does a greater number at i only make an allocation larger?  It is a
        factor or a summand of an argument."""
        return self.tokens[i - 1].text in ("(", ",", "+", "*") and \
            self.tokens[i + 1].text in (")", ",", "+", "*") and any(
                opening < i < closing and opening + 1 < closing and
                ALLOCATES.match(self.tokens[opening - 1].text) and
                self._direct(opening, i)
                for opening, closing in self.partner.items())

    def _direct(self, opening, i):
        """Is there no other bracket between that one and token i?"""
        return not any(opening < other < i < end
                       for other, end in self.partner.items())

    def _number(self, i):
        match = re.match(r"(0[xX][0-9a-fA-F]+|\d+)([uUlL]*)$",
                         self.tokens[i].text)
        if not match or re.match(r"0\d", match[1]):
            return
        value = int(match[1], 0)
        more = () if self._enlarges(i) else (value + 1,)
        for new in (*more, value - 1) if value else more:
            number = hex(new) if match[1][:2] in ("0x", "0X") else str(new)
            yield self.make(i, i, number + match[2], "constant")

    def _condition(self, i):
        end = self.partner.get(i + 1)
        if end is None or end <= i + 2 or self.tokens[i + 1].text != "(":
            return
        inside = self.text[self.tokens[i + 2].start:self.tokens[end - 1].end]
        if "\n" not in inside or not re.search(r"//", inside):
            yield self.make(i + 2, end - 1, f"!({inside})", "condition")

    def _return(self, i):
        end = self.statement_end(i)
        if end is None or end <= i + 1:
            return
        value = self.text[self.tokens[i + 1].start:self.tokens[end - 1].end]
        if re.fullmatch(r"\w+", value) and value in ("true", "false", "NULL"):
            return
        if not re.fullmatch(r"-?\d+", value):
            yield self.make(i + 1, end - 1, f"!({value})", "return")
        if value != "0":
            yield self.make(i + 1, end - 1, "0", "return")

    def statement_end(self, i):
        """The index of the semicolon that ends the statement at i."""
        while i < len(self.tokens):
            text = self.tokens[i].text
            if text == ";":
                return i
            if text in CLOSING and self.tokens[i].kind == "sign":
                return None
            i = self.partner.get(i, i) + 1
        return None

    def _statement(self, i):
        """The simple statement that starts at i, if one does, left out."""
        before, token = self.tokens[i - 1], self.tokens[i]
        if before.text == ")":
            opening = self.partner.get(i - 1, 0)
            if self.tokens[opening - 1].text not in ("if", "for", "while"):
                return
        elif before.text not in ("{", "}", ";", "else", "do", ":"):
            return
        if before.text == ";" and self.in_for(i):
            return
        end = self.statement_end(i)
        if end is None:
            return
        if token.text in ("break", "continue") and end == i + 1:
            yield self.make(i, i, "", "deletion")
            return
        words = [t.text for t in self.tokens[i:end]]
        if token.text in KEYWORDS or (
                token.kind == "word" and len(words) > 1 and
                (self.tokens[i + 1].kind == "word" or
                 (words[1] == "*" and self.tokens[i + 2].kind in
                  ("word", "sign") and words[0] not in ("*",)))):
            return
        if before.text == ":" and "?" in self.text[
                self.text.rfind(";", 0, token.start) + 1:token.start]:
            return
        if "(" in words or any(w in words for w in (
                "=", "++", "--", "+=", "-=", "|=", "&=", "^=", "<<=", ">>=",
                "*=", "/=")):
            yield self.make(i, end - 1, "", "deletion")

    def in_for(self, i):
        """Is token i in the head of a loop?"""
        for opening, closing in self.partner.items():
            if opening < i < closing and self.tokens[opening].text == "(":
                return True
        return False

    def mutants(self):
        """All of them, in the order of the text."""
        for i, token in enumerate(self.tokens):
            if not self.function[i] or i in self.silent:
                continue
            if token.kind == "sign":
                yield from self._sign(i)
            elif token.kind == "number":
                yield from self._number(i)
            elif token.text in ("true", "false"):
                yield self.make(i, i, {"true": "false", "false": "true"}[
                    token.text], "constant")
            elif token.text in ("if", "while"):
                yield from self._condition(i)
            elif token.text == "return":
                yield from self._return(i)
            if token.kind == "word" or token.text in ("*", "++", "--", "("):
                yield from self._statement(i)


def apply(text, mutant):
    """The text with that change; it has as many lines as before."""
    lines = mutant.old.count("\n") - mutant.new.count("\n")
    return (text[:mutant.start] + mutant.new + "\n" * lines +
            text[mutant.end:])


def whole_lines(text, start, end):
    """The lines that have this piece, with single spaces."""
    first = text.rfind("\n", 0, start) + 1
    last = text.find("\n", end)
    return " ".join(text[first:last if last >= 0 else len(text)].split())


def shown(text, mutant):
    """(before, after): the mutant's lines, as the lists have them."""
    after = apply(text, mutant)
    return (whole_lines(text, mutant.start, mutant.end),
            whole_lines(after, mutant.start, mutant.start + len(mutant.new) +
                        mutant.old.count("\n") - mutant.new.count("\n")))
