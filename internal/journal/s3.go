package journal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"
)

const (
	s3Scheme = "s3://"
	// attempts of one request. A conditional put that was done the first time is refused
	// the second time: the caller compares the contents then.
	s3Attempts = 3
	// s3Dial bounds the connection to S3, which a gateway endpoint routes inside the VPC.
	s3Dial = time.Second
	// s3MaxObject bounds what is read: a bucket's checkpoint at a million keys has 2 MB.
	s3MaxObject = 256 << 20
)

// s3Address is a parsed address of a bucket.
type s3Address struct{ bucket, prefix, region, endpoint string }

func parseS3(address string) (s3Address, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.User != nil {
		return s3Address{}, errors.New("must be s3://BUCKET[/PREFIX], without a user")
	}
	a := s3Address{bucket: u.Host, prefix: strings.Trim(u.Path, "/"), region: os.Getenv("AWS_REGION")}
	for name, values := range u.Query() {
		switch name {
		case "region":
			a.region = values[0]
		case "endpoint":
			a.endpoint = values[0]
		default:
			return s3Address{}, fmt.Errorf("has a parameter %q: region and endpoint are known", name)
		}
	}
	if a.region == "" {
		return s3Address{}, errors.New("needs a region: set AWS_REGION or add ?region=REGION")
	}
	if a.prefix != "" {
		a.prefix += "/"
	}
	return a, nil
}

// bucket is a Store in S3.
type bucket struct {
	client *s3.Client
	s3Address
}

func openS3(address string) (bucket, error) {
	a, err := parseS3(address)
	if err != nil {
		return bucket{}, fmt.Errorf("journal: the address %w", err)
	}
	transport := &http.Transport{
		DialContext:     (&net.Dialer{Timeout: s3Dial}).DialContext,
		MaxIdleConns:    64,
		IdleConnTimeout: 20 * time.Second, // S3 closes idle connections
		MaxConnsPerHost: 64, MaxIdleConnsPerHost: 64,
		ForceAttemptHTTP2: false,
	}
	options := s3.Options{
		Region: a.region, Credentials: aws.CredentialsProviderFunc(credentials),
		HTTPClient: &http.Client{Transport: transport}, RetryMaxAttempts: s3Attempts,
	}
	if a.endpoint != "" {
		options.BaseEndpoint, options.UsePathStyle = aws.String(a.endpoint), true
	}
	return bucket{s3.New(options), a}, nil
}

// credentials are those that Lambda gives the function in its environment.
func credentials(context.Context) (aws.Credentials, error) {
	c := aws.Credentials{
		AccessKeyID: os.Getenv("AWS_ACCESS_KEY_ID"), SecretAccessKey: os.Getenv("AWS_SECRET_ACCESS_KEY"),
		SessionToken: os.Getenv("AWS_SESSION_TOKEN"), Source: "environment",
	}
	if !c.HasKeys() {
		return aws.Credentials{}, errors.New("AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not both set")
	}
	return c, nil
}

// Create implements Store.
func (b bucket) Create(ctx context.Context, name string, content []byte) error {
	return b.put(ctx, name, content, aws.String("*"))
}

// Replace implements Store.
func (b bucket) Replace(ctx context.Context, name string, content []byte) error {
	return b.put(ctx, name, content, nil)
}

// put stores an object. S3 answers 409 to one of two conditional puts at a time, which is
// to be tried again.
func (b bucket) put(ctx context.Context, name string, content []byte, ifNoneMatch *string) error {
	for {
		_, err := b.client.PutObject(ctx, &s3.PutObjectInput{
			Bucket: &b.bucket, Key: aws.String(b.prefix + name), Body: bytes.NewReader(content),
			IfNoneMatch: ifNoneMatch,
		})
		switch code(err) {
		case "ConditionalRequestConflict":
			if ctx.Err() == nil {
				continue
			}
		case "PreconditionFailed":
			return ErrExists
		}
		if err != nil {
			return fmt.Errorf("journal: put: %w", err)
		}
		return nil
	}
}

// Read implements Store.
func (b bucket) Read(ctx context.Context, name string) ([]byte, error) {
	object, err := b.client.GetObject(ctx,
		&s3.GetObjectInput{Bucket: &b.bucket, Key: aws.String(b.prefix + name)})
	if code(err) == "NoSuchKey" {
		return nil, ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("journal: get: %w", err)
	}
	defer func() { _ = object.Body.Close() }() // all of it was read, or the read failed
	content, err := io.ReadAll(io.LimitReader(object.Body, s3MaxObject))
	if err != nil {
		return nil, fmt.Errorf("journal: get: %w", err)
	}
	return content, nil
}

// code is the word that S3 has for an error; empty for none of its own.
func code(err error) string {
	var known smithy.APIError
	if errors.As(err, &known) {
		return known.ErrorCode()
	}
	return ""
}
