// Package cli parses the flags of the commands of the program tidegate. Each command has
// one help text, which -h prints.
package cli

import (
	"errors"
	"flag"
	"fmt"
	"io"
)

// Parse parses the arguments of a command that takes only flags. After -h it prints about
// and the flags to out, and returns flag.ErrHelp.
func Parse(f *flag.FlagSet, args []string, about string, out io.Writer) error {
	f.SetOutput(io.Discard) // Refuse prints errors
	err := f.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		f.SetOutput(out)
		_, _ = fmt.Fprintf(out, "%s\nFlags:\n", about)
		f.PrintDefaults()
	case err == nil && f.NArg() > 0:
		return fmt.Errorf("argument %.60q is not a flag", f.Arg(0))
	}
	return err
}

// Refuse prints what is wrong with a command's flags, and returns the exit status.
func Refuse(name string, err error, errOut io.Writer) int {
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	_, _ = fmt.Fprintf(errOut, "%s: %v (-h shows all flags)\n", name, err)
	return 2
}
