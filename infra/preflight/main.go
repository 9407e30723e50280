// Command preflight looks at an AWS account for what would make the first deployment of a
// stage fail. It only reads, with the AWS CLI. ./scripts/verify -preflight runs it.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"

	"tidegate/infra/settings"
	"tidegate/internal/awscli"
)

func main() {
	aws, err := awscli.Find()
	if err == nil {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
		err = run(ctx, "infra", os.Args[1:], aws, os.Stdout)
		stop()
	}
	if err == nil {
		return
	}
	fmt.Fprintln(os.Stderr, "preflight:", err)
	if errors.Is(err, errFound) {
		os.Exit(1)
	}
	os.Exit(2)
}

var (
	// errFound means that the account has an obstacle.
	errFound = errors.New("the deployment would fail: see above")
	// errUnread means that no obstacle was found, and something was not looked at.
	errUnread = errors.New("not everything was read, so the deployment may fail: see above")
)

func run(ctx context.Context, app string, args []string, aws awscli.Command, out io.Writer) error {
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
	var result error
	for _, c := range checks {
		problem, err := c.check(l)
		if problem == "" && err == nil {
			problem = "ok"
		} else if problem != "" {
			result = errFound
		}
		if problem != "" {
			_, _ = fmt.Fprintf(out, "%-12s %s\n", c.name, problem)
		}
		if err != nil {
			_, _ = fmt.Fprintf(out, "%-12s not read: %v\n", c.name, err)
			result = cmp.Or(result, errUnread)
		}
	}
	return result
}

// propsOf returns the props of a stage: those of its file, or the defaults.
func propsOf(folder, stage string) (settings.Props, error) {
	file, err := settings.ReadStage(folder, stage)
	if err != nil {
		return settings.Props{}, err
	}
	return cmp.Or(file, &settings.StageFile{}).Props(stage)
}
