// Command preflight looks at an AWS account for what would make the first deployment of a
// stage fail. It only reads, with the AWS CLI. ./scripts/verify -preflight runs it.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
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
		l := &look{ctx: ctx, aws: aws, lookup: net.DefaultResolver.LookupIP}
		err = l.run("infra", os.Args[1:], os.Stdout)
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

// run looks at the account for the stage that args name, and prints what it finds.
func (l *look) run(app string, args []string, out io.Writer) error {
	if l.template = len(args) > 0 && args[0] == "-template"; l.template {
		args = args[1:]
	}
	if len(args) != 1 || strings.HasPrefix(args[0], "-") {
		return errors.New("usage: ./scripts/verify -preflight [-template] STAGE (-template is for the " +
			"published template with its defaults, instead of the stage's file)")
	}
	var err error
	if l.props, err = propsOf(filepath.Join(app, settings.StageFolder), args[0], l.template); err != nil {
		return err
	}
	if _, err := l.aws(l.ctx, "sts", "get-caller-identity"); err != nil {
		return fmt.Errorf("no account to look at: %w", err)
	}
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

// propsOf returns the props of a stage: those of its file, or the defaults. A template has
// those of stage prod.
func propsOf(folder, stage string, template bool) (settings.Props, error) {
	if template {
		p := settings.Default("prod")
		p.Stage = stage
		return p, p.Validate()
	}
	file, err := settings.ReadStage(folder, stage)
	if err != nil {
		return settings.Props{}, err
	}
	return cmp.Or(file, &settings.StageFile{}).Props(stage)
}
