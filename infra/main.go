// Command infra is the CDK app that provisions Tidegate: network, ElastiCache for Valkey,
// both functions, the dashboard's API, alarms, and example APIs that show how the
// authorizer is attached. cdk.json runs it; see docs/deploy.md.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"

	"tidegate/infra/settings"
)

func main() {
	if err := run(os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "infra:", err)
		os.Exit(1)
	}
}

func run(out io.Writer) error {
	root, err := findRoot()
	if err != nil {
		return err
	}
	build := &build{root: root}
	stack, err := synthesise(awscdk.NewApp(nil), build.code)
	if build.err != nil {
		return build.err // the CDK's own error does not have the cause
	}
	if err != nil || !build.ran {
		return err
	}
	return stack.cost().Print(out, stack.alternatives()...)
}

// codeOf returns the zip of a function by its name.
type codeOf func(name string) awslambda.Code

// synthesise writes the cloud assembly for the context. The CDK panics with a readable
// text on errors.
func synthesise(app awscdk.App, code codeOf) (s *Stack, err error) {
	defer func() {
		if fault := recover(); fault != nil {
			err = fmt.Errorf("%v", fault)
		}
	}()
	flags, err := contextFlags(app)
	if err != nil {
		return nil, err
	}
	props, err := settings.Read(flags)
	if err != nil {
		return nil, err
	}
	s = NewStack(app, props, code)
	if props.Nag {
		s.inspect(app)
	}
	app.Synth(nil)
	return s, nil
}

// contextFlags returns the flags in the CDK's context. Names with a colon or a slash are
// the CDK's own, and are left out.
func contextFlags(app awscdk.App) (map[string]string, error) {
	all, ok := app.Node().GetAllContext(nil).(map[string]any)
	if !ok {
		return nil, errors.New("the CDK's context is not a map")
	}
	flags := map[string]string{}
	for name, value := range all {
		if !strings.ContainsAny(name, ":/") {
			flags[name] = fmt.Sprint(value)
		}
	}
	return flags, nil
}
