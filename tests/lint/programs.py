# SPDX-License-Identifier: Apache-2.0
"""Finds which programs a shell script or a Python file starts, as far as its text shows.

A program whose name is computed or is a path is not reported, because such programs are the project's own.
"""

import ast
import re

BUILTINS = frozenset(". : [ alias bg break builtin cd command compgen complete continue declare echo eval exec "
                     "exit export false fg getopts hash help jobs kill let local mapfile printf pwd read "
                     "readonly return set shift shopt source test times trap true type typeset ulimit umask "
                     "unalias unset wait".split())
GOES_ON = frozenset("if then elif else do while until ! { } fi done esac time".split())  # a command may follow
REDIRECTIONS = frozenset(("<", ">", ">>", "<<", "<<-", "<<<", "&>", "&>>", ">&", "<&", "<>", ">|"))
# These programs run another command. The value is the number of words before that command, without options and
# assignments.
WRAPPERS = {"exec": 0, "command": 0, "env": 0, "sudo": 0, "setsid": 0, "nohup": 0, "timeout": 1, "setarch": 1,
            "chroot": 1, "unshare": 0, "nsenter": 0, "as_root": 0, "attended": 0, "inside": 0, "runuser": 1, "xargs": 0}
ASSIGNMENT = re.compile(r"^[A-Za-z_]\w*(\[[^]]*\])?\+?=")
OPERATOR = re.compile(r"\n|;;&?|;&|&&|\|\||\|&|&>>?|<<<|<<-?|[<>]\(|[<>]&|<>|>>|>\||[;|&()<>]")
QUOTED = re.compile(r"'[^']*'|\\.|`[^`]*`", re.S)


def closing(text, start):
    """Returns the index after the bracket that closes the bracket at `start`. Skips quotes and nested brackets."""
    pairs = {"(": ")", "{": "}"}
    ends = [pairs[text[start]]]
    position = start + 1
    while position < len(text) and ends:
        character = text[position]
        quoted = QUOTED.match(text, position)
        if character == '"' and ends[-1] == '"':
            ends.pop()
        elif character == '"':
            ends.append('"')
        elif quoted and (character != "'" or ends[-1] != '"'):
            position = quoted.end() - 1
        elif character == ends[-1]:
            ends.pop()
        elif ends[-1] != '"' and character in pairs or text[position - 1] == "$" and character in pairs:
            ends.append(pairs[character])
        position += 1
    return position


class Shell:
    """Reads one script. `calls` are the (name, line) of its commands, and `asked` are the names after `command -v`."""

    def __init__(self, text, first_line=1):
        self.text, self.first_line, self.position = text, first_line, 0
        self.calls, self.asked, self.functions, self.arrays = [], set(), set(), {}
        self.bodies = []  # marks of the here-documents that begin with the next line
        self.read_commands(None)

    def line(self):
        return self.first_line + self.text.count("\n", 0, self.position)

    def nested(self, text):
        inner = Shell(text, self.line())
        self.calls += inner.calls
        self.asked |= inner.asked
        self.functions |= inner.functions

    def skip_bodies(self):
        for mark in self.bodies:
            end = re.compile(rf"^\t*{re.escape(mark)}$", re.M).search(self.text, self.position)
            self.position = end.end() if end else len(self.text)
        self.bodies = []

    def next(self):
        """Returns the next operator or word; '' at the end."""
        blank = re.compile(r"(?:[ \t]|\\\n)*(?:#[^\n]*)?").match(self.text, self.position)
        self.position = blank.end()
        operator = OPERATOR.match(self.text, self.position)
        if not operator:
            return self.word()
        self.position = operator.end()
        if operator[0] == "\n":
            self.skip_bodies()
        if operator[0] in ("<(", ">("):
            end = closing(self.text, self.position - 1)
            self.nested(self.text[self.position:end - 1])
            self.position = end
            return "$()"
        return operator[0]

    def redirect(self, operator):
        target = self.next()
        if operator in ("<<", "<<-"):
            self.bodies.append(target.strip("'\"\\"))

    def word(self):
        begin, text = self.position, self.text
        in_quotes = False
        while self.position < len(text):
            character, quoted = text[self.position], QUOTED.match(text, self.position)
            if character == '"':
                in_quotes = not in_quotes
            elif quoted and (character != "'" or not in_quotes):
                if character == "`":
                    self.nested(quoted[0][1:-1])
                self.position = quoted.end()
                continue
            elif character == "$" and text[self.position + 1:self.position + 2] in ("(", "{"):
                self.expansion()
                continue
            elif not in_quotes and (character.isspace() or character in ";|&()<>"):
                break
            self.position += 1
        return text[begin:self.position]

    def expansion(self):
        begin = self.position + 1
        end = closing(self.text, begin)
        inner = self.text[begin + 1:end - 1]
        if self.text[begin] == "{":
            inner = "\n".join(re.findall(r"\$\(.*\)", inner, re.S))  # "${a:-$(b)}"
            if inner:
                self.nested("echo " + inner)
        elif not inner.startswith("("):
            self.nested(inner)
        self.position = end

    def read_commands(self, end):
        """Reads commands until the operator `end`."""
        while self.position < len(self.text):
            word = self.next()
            if word == end:
                return
            if word == "(" and self.text[self.position:self.position + 1] == "(":
                self.position = closing(self.text, self.position - 1)
            elif word == "(":
                self.read_commands(")")
            elif word in ("for", "select"):
                while (word := self.next()) not in (";", "\n", ""):
                    if word == "(":  # for ((a; b; c))
                        self.position = closing(self.text, self.position - 1)
            elif word == "case":
                while self.next() not in ("in", ""):
                    pass
                self.skip_pattern()
            elif word.startswith(";;") or word == ";&":
                self.skip_pattern()
            elif word in REDIRECTIONS:
                self.redirect(word)  # after a `done` or a `}`
            elif word and not OPERATOR.fullmatch(word) and word not in GOES_ON:
                self.read_command(word)

    def skip_pattern(self):
        """Skips from the `in` or `;;` of a case to the end of the next pattern, or to the `esac`."""
        word = self.next()
        while word in ("\n", "("):
            word = self.next()
        while word not in (")", "esac", ""):
            word = self.next()

    def read_command(self, word):
        words, line = [word], self.line()
        while True:
            before = self.position
            word = self.next()
            if word == "(" and ASSIGNMENT.fullmatch(words[-1]):
                self.arrays[ASSIGNMENT.match(words[-1])[0].rstrip("+=")] = self.next()
                self.position = closing(self.text, self.text.index("(", before))
            elif word == "(" and len(words) == 1:
                self.functions.add(words[0])
                self.next()
                return
            elif word in REDIRECTIONS:
                self.redirect(word)
            elif word == "" or OPERATOR.fullmatch(word):
                if word != "\n":  # a here-document may have preceded it
                    self.position = before
                break
            elif not (word.isdigit() and self.text[self.position:self.position + 1] in ("<", ">")):
                words.append(word)
        self.note(words, line)

    def note(self, words, line):
        """Records what `words` call: the command itself, and a command that this command runs."""
        while words and ASSIGNMENT.match(words[0]):
            words = words[1:]
        if not words:
            return
        name, rest = words[0].strip("'\""), words[1:]
        array = re.fullmatch(r"\$\{(\w+)\[@\]\}", name)
        if array and array[1] in self.arrays:
            name = self.arrays[array[1]]
        if name == "command" and rest[:1] in (["-v"], ["-V"]):
            self.asked.update(rest[1:])
            return
        if name == "[[" or not re.fullmatch(r"[\w.+-]+|\[|:", name) or name[0] in "-0123456789":
            return
        self.calls.append((name, line))
        if name in WRAPPERS:
            own = [word for word in rest if not word.startswith("-") and not ASSIGNMENT.match(word)]
            own = own[WRAPPERS[name]:] if WRAPPERS[name] <= len(own) else []
            if own:
                self.note(rest[rest.index(own[0]):], line)
        elif name in ("sh", "bash", "dash", "trap", "eval"):
            self.read_text(name, rest)

    def read_text(self, name, rest):
        """Reads a script that is an argument: sh -c '...', trap '...' EXIT."""
        at = 0
        if name in ("sh", "bash", "dash"):
            flags = [index for index, word in enumerate(rest) if re.fullmatch(r"-[a-z]*c", word)]
            at = flags[0] + 1 if flags else len(rest)
        if at < len(rest) and rest[at][:1] in "'\"":
            self.nested(rest[at][1:-1])


def text_of(node):
    """Returns a literal's text; fields of an f-string read as a name."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(part.value if isinstance(part, ast.Constant) else "$field" for part in node.values)
    return None


class Python:
    """Reads one Python file. A starter is a function that starts the program that one of its parameters names:
    `starters` has that parameter's place and name, and whether it takes all later arguments."""

    STARTERS = frozenset(("run", "Popen", "call", "check_call", "check_output"))

    def __init__(self, text, starters_elsewhere=None):
        nodes = list(ast.walk(ast.parse(text)))
        self.calls, self.asked = [], set()
        defined = {node.name for node in nodes if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
        self.starters = dict(self.find_starters(nodes))
        self.known = {name: how for name, how in (starters_elsewhere or {}).items() if name not in defined}
        self.known |= self.starters
        self.lists = {}
        for node in nodes:
            if isinstance(node, ast.Assign) and isinstance(node.value, (ast.List, ast.Tuple)):
                for target in node.targets:
                    if isinstance(target, ast.Name):
                        self.lists.setdefault(target.id, []).append(node.value)
        for node in nodes:
            if isinstance(node, ast.Call):
                self.read_call(node)

    def starts(self, call):
        return (isinstance(call.func, ast.Attribute) and call.func.attr in self.STARTERS and
                isinstance(call.func.value, ast.Name) and call.func.value.id == "subprocess")

    def find_starters(self, nodes):
        """Yields (name, (place, parameter, takes all)) of each starter of this file. A class is a starter if its
        __init__ is one."""
        owners = {function: owner.name for owner in nodes if isinstance(owner, ast.ClassDef)
                  for function in owner.body if isinstance(function, ast.FunctionDef)}
        for function in nodes:
            if not isinstance(function, ast.FunctionDef):
                continue
            passed = {name for call in ast.walk(function) if isinstance(call, ast.Call) and self.starts(call)
                      for name in self.names(call.args[0])}
            name = owners[function] if function.name == "__init__" and function in owners else function.name
            arguments = function.args
            own = [argument.arg for argument in arguments.args if argument.arg not in ("self", "cls")]
            if arguments.vararg and arguments.vararg.arg in passed:
                yield name, (len(own), arguments.vararg.arg, True)
            for place, parameter in [*enumerate(own), *((None, only.arg) for only in arguments.kwonlyargs)]:
                if parameter in passed:
                    yield name, (place, parameter, False)

    @staticmethod
    def names(node):
        """Returns the names that may stand for a whole command: `command`, `command or [...]`, `[word for word in
        command]`."""
        if isinstance(node, ast.BoolOp):
            return [value.id for value in node.values if isinstance(value, ast.Name)]
        if isinstance(node, ast.ListComp):
            node = node.generators[0].iter
        return [node.id] if isinstance(node, ast.Name) else []

    def read_call(self, call):
        name = getattr(call.func, "attr", getattr(call.func, "id", ""))
        if name == "which" and call.args and text_of(call.args[0]):
            self.asked.add(text_of(call.args[0]))
        of_subprocess = {True: (0, "args", False)}.get(self.starts(call), (None, "", False))
        place, parameter, takes_all = self.known.get(name, of_subprocess)
        if takes_all:
            self.note(call.args[place:])
        elif place is not None:
            for argument in call.args[place:place + 1]:
                self.note_all(argument)
        for keyword in call.keywords:
            if keyword.arg in (parameter, "command"):
                self.note_all(keyword.value)

    def note_all(self, argument):
        for value in self.lists.get(argument.id, []) if isinstance(argument, ast.Name) else [argument]:
            if isinstance(value, (ast.List, ast.Tuple)):
                self.note(value.elts)

    def note(self, words):
        """Notes a command, and what a shell among its words calls: ["rondo", "run", "sh", "-c", "..."]."""
        texts = [text_of(word) for word in words]
        if texts and texts[0] and re.fullmatch(r"[A-Za-z_][\w.+-]*", texts[0]):
            self.calls.append((texts[0], words[0].lineno))
        for index in range(len(texts) - 2):
            option, script = texts[index + 1], texts[index + 2]
            if texts[index] in ("sh", "bash") and re.fullmatch(r"-[a-z]*c", option or "") and script:
                inner = Shell(script, words[index + 2].lineno)
                self.calls += [call for call in inner.calls if call[0] not in inner.functions]
