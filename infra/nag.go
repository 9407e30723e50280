package main

import (
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/jsii-runtime-go"
	"github.com/cdklabs/cdk-nag-go/cdknag/v2"
)

// exception is a finding of cdk-nag's AWS Solutions rules that is meant to be as it is.
type exception struct {
	// rule and path say what; a path is the beginning of those of the constructs below the stack.
	rule, path string
	why        string
	// finding narrows rules that report several things of one construct.
	finding string
}

var exceptions = []exception{}

// inspect applies cdk-nag: what is no exception fails synthesis. -c nag=true asks for it; a test does always.
func (s *Stack) inspect(app awscdk.App) {
	for _, e := range exceptions {
		s.except(e)
	}
	awscdk.Aspects_Of(app).Add(cdknag.NewAwsSolutionsChecks(&cdknag.NagPackProps{Verbose: jsii.Bool(true)}), nil)
}

func (s *Stack) except(e exception) {
	for _, child := range *s.Node().Children() {
		if strings.HasPrefix(*child.Node().Id(), e.path) {
			cdknag.NagSuppressions_AddResourceSuppressions(child, &[]*cdknag.NagPackSuppression{{Id: &e.rule, Reason: &e.why}}, jsii.Bool(true))
		}
	}
}
