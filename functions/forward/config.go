package main

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"

	"tidegate/internal/config"
)

// settings are the function's variables. infra sets them.
type settings struct {
	// Target is the ARN of an event bus or of a topic.
	Target string `env:"TARGET"`
	Stage  string `env:"STAGE"`

	Region       string `env:"AWS_REGION"`
	Endpoint     string `env:"AWS_ENDPOINT_URL"` // for tests
	AccessKey    string `env:"AWS_ACCESS_KEY_ID"`
	SecretKey    string `env:"AWS_SECRET_ACCESS_KEY"`
	SessionToken string `env:"AWS_SESSION_TOKEN"`
}

func newForwarder(variables []string, log *slog.Logger) (*forwarder, error) {
	s, problems := config.Read[settings](variables)
	service := ""
	if parts := strings.Split(s.Target, ":"); len(parts) > 2 {
		service = parts[2]
	}
	if service != "events" && service != "sns" {
		problems.Add("TARGET", fmt.Sprintf("is %q: must be the ARN of an event bus or a topic", s.Target))
	}
	if err := problems.Err(); err != nil {
		return nil, fmt.Errorf("environment: %w", err)
	}
	f := &forwarder{log: log, pause: pause}
	if service == "sns" {
		f.target = newTopic(s)
	} else {
		f.target = newBus(s)
	}
	return f, nil
}

// Retrieve returns the credentials that Lambda gives the environment.
func (s settings) Retrieve(context.Context) (aws.Credentials, error) {
	return aws.Credentials{AccessKeyID: s.AccessKey, SecretAccessKey: s.SecretKey,
		SessionToken: s.SessionToken}, nil
}

func (s settings) endpoint() *string {
	if s.Endpoint == "" {
		return nil
	}
	return &s.Endpoint
}
