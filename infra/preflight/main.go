// Command preflight looks at an AWS account for what would make the first deployment of a
// stage fail. It only reads, with the AWS CLI. ./scripts/verify -preflight runs it.
package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"tidegate/infra/settings"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, "infra", os.Args[1:], commandLine, os.Stdout)
	stop()
	if err == nil {
		return
	}
	fmt.Fprintln(os.Stderr, "preflight:", err)
	if errors.Is(err, errFound) {
		os.Exit(1)
	}
	os.Exit(2)
}

// errFound means that the account has an obstacle.
var errFound = errors.New("the deployment would fail: see above")

// awsCommand runs a command of the AWS CLI, and returns its output as JSON.
type awsCommand func(ctx context.Context, args ...string) ([]byte, error)

const limit = time.Minute // of one command

func commandLine(ctx context.Context, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "aws", append(args, "--output", "json", "--no-cli-pager")...)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := cmd.Run(); err != nil {
		text := strings.Join(strings.Fields(errOut.String()), " ")
		return nil, fmt.Errorf("aws %s %s: %w: %.200s", args[0], args[1], err, text)
	}
	return out.Bytes(), nil
}

func run(ctx context.Context, app string, args []string, aws awsCommand, out io.Writer) error {
	if len(args) != 1 || strings.HasPrefix(args[0], "-") {
		return errors.New("usage: ./scripts/verify -preflight STAGE")
	}
	props, err := propsOf(filepath.Join(app, settings.StageFolder), args[0])
	if err != nil {
		return err
	}
	if _, err := aws(ctx, "sts", "get-caller-identity"); err != nil {
		return fmt.Errorf("no account to look at: %w", err)
	}
	l := &look{ctx: ctx, aws: aws, props: props}
	found := 0
	for _, c := range checks {
		problem, err := c.check(l)
		switch {
		case err != nil:
			_, _ = fmt.Fprintf(out, "%-12s not read: %v\n", c.name, err)
		case problem != "":
			found++
			_, _ = fmt.Fprintf(out, "%-12s %s\n", c.name, problem)
		default:
			_, _ = fmt.Fprintf(out, "%-12s ok\n", c.name)
		}
	}
	if found > 0 {
		return errFound
	}
	return nil
}

// propsOf returns the props of a stage: those of its file, or the defaults.
func propsOf(folder, stage string) (settings.Props, error) {
	file, err := settings.ReadStage(folder, stage)
	if err != nil {
		return settings.Props{}, err
	}
	return cmp.Or(file, &settings.StageFile{}).Props(stage)
}
