// Package awscli runs the AWS CLI, version 1 or 2. Commands for operators that read an
// account import it; functions never do.
package awscli

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// Command runs a command of the AWS CLI and returns its output as JSON.
type Command func(ctx context.Context, args ...string) ([]byte, error)

const limit = time.Minute // of one command

// Find returns the AWS CLI on PATH. It fails if there is none.
func Find() (Command, error) {
	path, err := exec.LookPath("aws")
	if err != nil {
		return nil, fmt.Errorf("find the AWS CLI: %w", err)
	}
	return func(ctx context.Context, args ...string) ([]byte, error) {
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		//nolint:gosec // args are constants and validated flags
		cmd := exec.CommandContext(ctx, path, append(args, "--output", "json")...)
		cmd.Env = append(os.Environ(), "AWS_PAGER=") // version 1 has no --no-cli-pager
		var out, errOut bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errOut
		if err := cmd.Run(); err != nil {
			return nil, fmt.Errorf("aws %s %s: %w: %.300s", args[0], args[1], err, lastLine(errOut.String()))
		}
		return out.Bytes(), nil
	}, nil
}

// lastLine returns the last line of a text that is not blank. The AWS CLI prints its usage
// before the error.
func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return strings.TrimSpace(text[strings.LastIndexByte(text, '\n')+1:])
}
