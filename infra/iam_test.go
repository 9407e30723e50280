package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// request is a call of AWS that a function makes.
type request struct {
	function string // the id of its role begins with this
	action   string
	resource string // as text renders the ARN
	context  map[string]string
}

// allows reports whether policies allow a request: a statement allows it, and none denies
// it. A condition that the request's context lacks does not hold, but for Null.
func allows(statements []properties, r request) bool {
	allowed := false
	for _, s := range statements {
		if !names(s["Action"], r.action) || !names(s["Resource"], r.resource) || !holds(s, r.context) {
			continue
		}
		if s["Effect"] == "Deny" {
			return false
		}
		allowed = true
	}
	return allowed
}

// bucketARN matches a bucket's attribute, which another resource writes as an ARN.
var bucketARN = regexp.MustCompile(`\$\{(LogChanges\w+)\.Arn\}`)

// names reports whether a list of patterns matches a name.
func names(patterns any, name string) bool {
	return slices.ContainsFunc(list(patterns), func(item any) bool {
		arn := bucketARN.ReplaceAllString(text(item), "arn:$${AWS::Partition}:s3:::$${$1}")
		pattern := strings.ReplaceAll(regexp.QuoteMeta(arn), `\*`, ".*")
		matched, err := regexp.MatchString("^"+pattern+"$", name)
		return err == nil && matched
	})
}

func holds(statement properties, context map[string]string) bool {
	conditions, _ := statement["Condition"].(map[string]any)
	for operator, value := range conditions {
		tests, _ := value.(map[string]any)
		for key, want := range tests {
			got, given := context[key]
			switch {
			case operator == "Null":
				if (text(want) == "true") == given {
					return false
				}
			case !given || !names(want, got):
				return false
			}
		}
	}
	return true
}

// rightsOf returns the statements of a function's role and of the policies attached to it.
func (t template) rightsOf(function string) []properties {
	var all []properties
	for id, statements := range t.statements() {
		r := t.Resources[id]
		own := r.Type == "AWS::IAM::Role" && strings.Contains(id, function+"Role")
		attached := r.Type == "AWS::IAM::Policy" &&
			strings.Contains(text(list(r.Properties["Roles"])[0]), function+"Role")
		if own || attached {
			all = append(all, statements...)
		}
	}
	return slices.DeleteFunc(all, func(s properties) bool { return s["Principal"] != nil })
}

// sourceFunction is the condition key of calls by a function's own code.
const sourceFunction = "lambda:SourceFunctionArn"

// The policies allow every call that the functions' code makes, and the bucket's own and
// the endpoint's policies do not deny the log's. Calls that the code must not make are
// denied.
func TestCallsAreAllowed(t *testing.T) {
	made := of(t, prod)
	id := made.only(t, "AWS::S3::Bucket", "Changes").id
	log := "arn:${AWS::Partition}:s3:::${" + id + "}"
	key := made.key(t)
	cache := "arn:${AWS::Partition}:elasticache:${AWS::Region}:${AWS::AccountId}:"
	secure := map[string]string{"aws:SecureTransport": "true"}
	create := map[string]string{"aws:SecureTransport": "true", "s3:if-none-match": "*"}
	code := map[string]string{sourceFunction: "arn:${AWS::Partition}:lambda:${AWS::Region}:" +
		"${AWS::AccountId}:function:tidegate-prod-admin"}
	bucket := []properties{{"Effect": "Allow", "Action": "*", "Resource": "*"}} // the role decides
	var endpoint []properties
	for id, statements := range made.statements() {
		switch made.Resources[id].Type {
		case "AWS::S3::BucketPolicy":
			bucket = append(bucket, statements...)
		case "AWS::EC2::VPCEndpoint":
			endpoint = append(endpoint, statements...)
		}
	}
	for _, c := range []struct {
		request
		want bool
	}{
		{request{"Check", "elasticache:Connect", cache + "replicationgroup:tidegate-prod", nil}, true},
		{request{"Check", "elasticache:Connect", cache + "user:tidegate-prod-check", nil}, true},
		{request{"Check", "elasticache:Connect", cache + "user:tidegate-prod-admin", nil}, false},
		{request{"Admin", "elasticache:Connect", cache + "user:tidegate-prod-admin", nil}, true},
		{request{"Admin", "s3:PutObject", log + "/changes/000000007/001", create}, true},
		{request{"Admin", "s3:PutObject", log + "/changes/000000007/001", secure}, false},
		{request{"Admin", "s3:PutObject", log + "/state/07", secure}, true},
		{request{"Admin", "s3:PutObject", log + "/state/07",
			map[string]string{"aws:SecureTransport": "false"}}, false},
		{request{"Admin", "s3:GetObject", log + "/changes/000000007/001", secure}, true},
		{request{"Admin", "s3:ListBucket", log, secure}, true},
		{request{"Admin", "s3:DeleteObject", log + "/changes/000000007/001", secure}, false},
		{request{"Admin", "kms:GenerateDataKey", key, nil}, true},
		{request{"Admin", "kms:Decrypt", key, nil}, true},
		{request{"Check", "s3:GetObject", log + "/changes/000000007/001", secure}, false},
		{request{"Admin", "ec2:CreateNetworkInterface", "*", nil}, true},
		{request{"Admin", "ec2:CreateNetworkInterface", "*", code}, false},
		{request{"Forward", "events:PutEvents",
			"arn:${AWS::Partition}:events:${AWS::Region}:${AWS::AccountId}:event-bus/default", nil}, true},
		{request{"Forward", "sqs:SendMessage",
			"${" + made.only(t, "AWS::SQS::Queue", "CrossingsFailed").id + ".Arn}", nil}, true},
	} {
		got := allows(made.rightsOf(c.function), c.request)
		if strings.HasPrefix(c.action, "s3:") {
			got = got && allows(endpoint, c.request) && allows(bucket, c.request)
		}
		if got != c.want {
			t.Errorf("%s: %s on %s with %v: got allowed %t, want %t", c.function, c.action, c.resource,
				c.context, got, c.want)
		}
	}
}

var sdkCall = regexp.MustCompile(`\b(s3|eventbridge|sns|sqs|kms|secretsmanager|lambda)\.(\w+)Input\{`)

// TestCallsAreAllowed has every call of an AWS SDK in the code; with -c crossings=sns the
// rights to publish are in TestCrossingsToSNS.
func TestCallsAreThoseOfTheCode(t *testing.T) {
	found := map[string]bool{}
	for _, folder := range []string{"functions", "internal"} {
		visit := func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			source, err := os.ReadFile(path)
			for _, m := range sdkCall.FindAllStringSubmatch(string(source), -1) {
				found[m[1]+":"+m[2]] = true
			}
			return err
		}
		err := filepath.WalkDir(filepath.Join("..", folder), visit)
		if err != nil {
			t.Fatal(err)
		}
	}
	equal(t, "calls", sorted(found), []string{"eventbridge:PutEvents", "s3:GetObject",
		"s3:ListObjectsV2", "s3:PutObject", "sns:PublishBatch"})
}
