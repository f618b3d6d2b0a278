package main

import (
	"context"
	"fmt"
	"strings"
)

var completionCommand = command{
	name: "completion", args: "bash|zsh|fish", choices: []string{"bash", "fish", "zsh"},
	short: "commands, flags and their values for a shell to complete",
	long: `Prints a script for the shell to read when it starts: for bash from ~/.bashrc,
for zsh from ~/.zshrc behind compinit, for fish from
~/.config/fish/completions/pistore.fish.`,
	examples: []string{"pistore completion bash", "source <(pistore completion bash)", "pistore completion fish > pistore.fish"},
	run:      runCompletion,
}

// completion is what a shell is told of a command.
type completion struct {
	command
	flags []flagDoc
}

// shells are the generators of scripts, by shell.
var shells = map[string]func([]completion) string{"bash": bashScript, "zsh": zshScript, "fish": fishScript}

// completionReport is the JSON of completion.
type completionReport struct {
	Shell  string `json:"shell"`
	Script string `json:"script"`
}

func runCompletion(_ context.Context, in *invocation) error {
	rest, err := in.parseThese("SHELL")
	if err != nil {
		return err
	}
	script, ok := shells[rest[0]]
	if !ok {
		return usageError(fmt.Sprintf("completion knows bash, zsh and fish, not %q", rest[0]))
	}
	var all []completion
	for _, c := range in.all {
		all = append(all, completion{c, flagsOf(c)})
	}
	text := script(all)
	if in.json {
		return in.out.object(completionReport{rest[0], text})
	}
	in.out.raw(text)
	return nil
}

// words are the flags that complete a command, those of every command too.
func (c completion) words() []string {
	var words []string
	for _, f := range c.flags {
		words = append(words, "--"+f.name)
	}
	for _, name := range commonFlags {
		words = append(words, "--"+name)
	}
	return append(words, "--help")
}

// quoted is a text as a word of a shell.
func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

func bashScript(all []completion) string {
	var b strings.Builder
	var names []string
	for _, c := range all {
		names = append(names, c.name)
	}
	b.WriteString("# bash completion of pistore\n")
	b.WriteString("_pistore_files() {\n  local IFS=$'\\n'\n  COMPREPLY=($(compgen -f -- \"$1\"))\n}\n_pistore() {\n")
	b.WriteString("  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} words=\n")
	b.WriteString("  COMPREPLY=()\n  if ((COMP_CWORD == 1)); then\n")
	fmt.Fprintf(&b, "    COMPREPLY=($(compgen -W %s -- \"$word\"))\n    return\n  fi\n", quoted(strings.Join(append(names, "help"), " ")))
	b.WriteString("  case ${COMP_WORDS[1]}:$before in\n")
	for _, c := range all {
		for _, f := range c.flags {
			switch {
			case f.choices() != nil:
				fmt.Fprintf(&b, "  %s:--%s) words=%s ;;\n", c.name, f.name, quoted(strings.Join(f.choices(), " ")))
			case f.value == "FILE", f.value == "DIR":
				fmt.Fprintf(&b, "  %s:--%s) _pistore_files \"$word\"; return ;;\n", c.name, f.name)
			case f.value != "":
				fmt.Fprintf(&b, "  %s:--%s) return ;;\n", c.name, f.name)
			}
		}
	}
	b.WriteString("  esac\n  if [[ -z $words ]]; then\n    case ${COMP_WORDS[1]}:$word in\n")
	fmt.Fprintf(&b, "    help:*) words=%s ;;\n", quoted(strings.Join(names, " ")))
	for _, c := range all {
		fmt.Fprintf(&b, "    %s:-*) words=%s ;;\n", c.name, quoted(strings.Join(c.words(), " ")))
		if args := c.choices; args != nil {
			fmt.Fprintf(&b, "    %s:*) words=%s ;;\n", c.name, quoted(strings.Join(args, " ")))
		}
	}
	b.WriteString("    esac\n  fi\n  if [[ -n $words ]]; then\n    COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n")
	b.WriteString("  else\n    _pistore_files \"$word\"\n  fi\n}\ncomplete -o filenames -F _pistore pistore\n")
	return b.String()
}

func zshScript(all []completion) string {
	var b strings.Builder
	b.WriteString("#compdef pistore\n# zsh completion of pistore\n_pistore() {\n  local -a commands\n  commands=(\n")
	for _, c := range all {
		fmt.Fprintf(&b, "    %s\n", quoted(c.name+":"+c.short))
	}
	b.WriteString("    'help:what a command does'\n  )\n  if ((CURRENT == 2)); then\n    _describe command commands\n    return\n  fi\n")
	b.WriteString("  local command=$words[2]\n  shift words\n  ((CURRENT--))\n  case $command in\n  help) _describe command commands ;;\n")
	for _, c := range all {
		fmt.Fprintf(&b, "  %s)\n    _arguments", c.name)
		for _, f := range c.flags {
			spec := "--" + f.name + "[" + strings.NewReplacer("[", "(", "]", ")", ":", " ").Replace(f.about) + "]"
			switch {
			case f.choices() != nil:
				spec += ":value:(" + strings.Join(f.choices(), " ") + ")"
			case f.value == "FILE", f.value == "DIR":
				spec += ":" + f.value + ":_files"
			case f.value != "":
				spec += ":" + f.value + ":"
			}
			b.WriteString(" \\\n      " + quoted(spec))
		}
		b.WriteString(" \\\n      '--json[print JSON]' '--quiet[print errors only]' '--help[what it does]'")
		if args := c.choices; args != nil {
			b.WriteString(" \\\n      " + quoted("*:argument:("+strings.Join(args, " ")+")") + " ;;\n")
		} else {
			b.WriteString(" \\\n      '*:place:_files' ;;\n")
		}
	}
	b.WriteString("  esac\n}\ncompdef _pistore pistore\n")
	return b.String()
}

func fishScript(all []completion) string {
	var b strings.Builder
	b.WriteString("# fish completion of pistore\n")
	const first = "__fish_use_subcommand"
	for _, c := range all {
		fmt.Fprintf(&b, "complete -c pistore -f -n %s -a %s -d %s\n", first, c.name, quoted(c.short))
	}
	fmt.Fprintf(&b, "complete -c pistore -f -n %s -a help -d 'what a command does'\n", first)
	for _, c := range all {
		behind := quoted("__fish_seen_subcommand_from " + c.name)
		for _, f := range c.flags {
			fmt.Fprintf(&b, "complete -c pistore -n %s -l %s -d %s", behind, f.name, quoted(f.about))
			switch {
			case f.choices() != nil:
				fmt.Fprintf(&b, " -x -a %s", quoted(strings.Join(f.choices(), " ")))
			case f.value == "FILE", f.value == "DIR":
				b.WriteString(" -r -F")
			case f.value != "":
				b.WriteString(" -x")
			}
			b.WriteByte('\n')
		}
		if args := c.choices; args != nil {
			fmt.Fprintf(&b, "complete -c pistore -f -n %s -a %s\n", behind, quoted(strings.Join(args, " ")))
		}
		fmt.Fprintf(&b, "complete -c pistore -f -n '__fish_seen_subcommand_from help' -a %s -d %s\n", c.name, quoted(c.short))
	}
	b.WriteString("complete -c pistore -n 'not __fish_use_subcommand' -l json -d 'print JSON'\n")
	b.WriteString("complete -c pistore -n 'not __fish_use_subcommand' -l quiet -d 'print errors only'\n")
	b.WriteString("complete -c pistore -n 'not __fish_use_subcommand' -l help -d 'what it does'\n")
	return b.String()
}
