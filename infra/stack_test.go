package main

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"tidegate/infra/settings"
	"tidegate/internal/config"
	valkeyurl "tidegate/internal/store"
	"tidegate/internal/store/acl"
)

// on runs a test on the golden templates and on a prod stack without other flags.
func on(t *testing.T, test func(t *testing.T, made template)) {
	t.Helper()
	for name, build := range map[string]func() (template, error){"dev": dev, "prod": prod,
		"minimal prod": minimal} {
		t.Run(name, func(t *testing.T) { test(t, of(t, build)) })
	}
}

func equal(t *testing.T, what string, got, want any) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// The cache has a user for each function, which logs in by IAM and has the rights of
// package acl.
func TestUsers(t *testing.T) {
	on(t, func(t *testing.T, made template) {
		for prefix, access := range map[string]string{"CheckUser": acl.Check(), "AdminUser": acl.Admin()} {
			u := made.only(t, "AWS::ElastiCache::User", prefix)
			equal(t, "authentication", u.Properties["AuthenticationMode"], map[string]any{"Type": "iam"})
			equal(t, "engine", u.Properties["Engine"], "valkey")
			equal(t, "access string", u.Properties["AccessString"], access)
			equal(t, "name", u.Properties["UserName"], u.Properties["UserId"])
			for _, forbidden := range []string{"Passwords", "NoPasswordRequired"} {
				equal(t, forbidden, u.Properties[forbidden], nil)
			}
		}
		group := made.only(t, "AWS::ElastiCache::UserGroup", "")
		var members []string
		for _, id := range list(group.Properties["UserIds"]) {
			members = append(members, text(id))
		}
		equal(t, "members", members, []string{ref(t, made, "AWS::ElastiCache::User", "CheckUser"),
			ref(t, made, "AWS::ElastiCache::User", "AdminUser")})
	})
}

func TestServerlessCache(t *testing.T) {
	for name, build := range map[string]func() (template, error){"dev": dev, "minimal prod": minimal} {
		t.Run(name, func(t *testing.T) {
			made := of(t, build)
			cache := made.only(t, "AWS::ElastiCache::ServerlessCache", "").Properties
			equal(t, "engine", cache["Engine"], "valkey")
			equal(t, "version", cache["MajorEngineVersion"], "8")
			equal(t, "users", text(cache["UserGroupId"]), ref(t, made, "AWS::ElastiCache::UserGroup", ""))
			equal(t, "key", text(cache["KmsKeyId"]), made.key(t))
			equal(t, "groups", text(cache.at("SecurityGroupIds", 0)), groupOf(t, made, "CacheGroup"))
			equal(t, "subnets", len(list(cache["SubnetIds"])), 2)
			if cache.at("CacheUsageLimits", "ECPUPerSecond", "Maximum") == nil ||
				cache.at("CacheUsageLimits", "DataStorage", "Maximum") == nil {
				t.Errorf("got limits %v of the cache, want maxima of ECPUs and storage",
					cache["CacheUsageLimits"])
			}
		})
	}
}

func TestNodes(t *testing.T) {
	made := of(t, prod)
	cache := made.only(t, "AWS::ElastiCache::ReplicationGroup", "").Properties
	for name, want := range map[string]any{
		"Engine": "valkey", "TransitEncryptionEnabled": true, "TransitEncryptionMode": "required",
		"AtRestEncryptionEnabled":  true,
		"AutomaticFailoverEnabled": true, "MultiAZEnabled": true, "NumNodeGroups": 2,
		"ReplicasPerNodeGroup": 2,
	} {
		equal(t, name, cache[name], want)
	}
	equal(t, "key", text(cache["KmsKeyId"]), made.key(t))
	equal(t, "users", text(cache.at("UserGroupIds", 0)), ref(t, made, "AWS::ElastiCache::UserGroup", ""))
	equal(t, "subnets", text(cache["CacheSubnetGroupName"]),
		ref(t, made, "AWS::ElastiCache::SubnetGroup", ""))
	equal(t, "version", cache["EngineVersion"], "9.1")
	parameters := made.only(t, "AWS::ElastiCache::ParameterGroup", "").Properties
	equal(t, "family", parameters["CacheParameterGroupFamily"], "valkey9")
	equal(t, "cluster mode", parameters.at("Properties", "cluster-enabled"), "yes")
	equal(t, "eviction", parameters.at("Properties", "maxmemory-policy"), "volatile-lfu")
}

// key returns the template's reference to the stack's key.
func (t template) key(test *testing.T) string {
	test.Helper()
	return "${" + t.only(test, "AWS::KMS::Key", "").id + ".Arn}"
}

func groupOf(t *testing.T, made template, part string) string {
	t.Helper()
	return ref(t, made, "AWS::EC2::SecurityGroup", part)
}

// ref returns the reference to the only resource of a type whose id contains part.
func ref(t *testing.T, made template, kind, part string) string {
	t.Helper()
	return "${" + made.only(t, kind, part).id + "}"
}

// VALKEY_URL is valid for the functions, and names the user and the cache of the
// template.
func TestFunctionsLogInByIAMOverTLS(t *testing.T) {
	t.Setenv("AWS_REGION", "eu-west-1")
	on(t, func(t *testing.T, made template) {
		for id, user := range map[string]string{"Check": "CheckUser", "Admin": "AdminUser"} {
			raw := strings.NewReplacer("${", "", "}", "", "Store", "").
				Replace(text(environment(t, made, id)["VALKEY_URL"]))
			if err := valkeyurl.CheckURL(raw); err != nil {
				t.Fatalf("%s: %v", raw, err)
			}
			u, err := url.Parse(raw)
			if err != nil {
				t.Fatal(err)
			}
			equal(t, "scheme", u.Scheme, "valkeys")
			equal(t, "user", u.User.Username(),
				made.only(t, "AWS::ElastiCache::User", user).Properties["UserName"])
			equal(t, "cluster", u.Query().Get("cluster"), "true")
			name := ""
			for _, r := range append(made.all("AWS::ElastiCache::ServerlessCache"),
				made.all("AWS::ElastiCache::ReplicationGroup")...) {
				name = text(r.Properties["ServerlessCacheName"]) + text(r.Properties["ReplicationGroupId"])
				equal(t, "serverless", u.Query().Get("serverless") == "true",
					r.Type == "AWS::ElastiCache::ServerlessCache")
			}
			equal(t, "cache", u.Query().Get("iam"), name)
		}
	})
}

// apiGatewayWaits is how long an HTTP API waits for its authorizer.
const apiGatewayWaits = 10 * time.Second

// A function's time-out is longer than its longest waits for a connection and an answer
// together. That of the check function is shorter than API Gateway's.
func TestFunctionTimeouts(t *testing.T) {
	on(t, func(t *testing.T, made template) {
		for _, id := range []string{"Check", "Admin"} {
			set := environment(t, made, id)
			connect, err := time.ParseDuration(text(set["VALKEY_CONNECT_TIMEOUT"]))
			if err != nil {
				t.Fatalf("%s: %v", id, err)
			}
			if err := config.ValkeyConnectTimeout.Check(connect); err != nil {
				t.Errorf("%s: got VALKEY_CONNECT_TIMEOUT that %v", id, err)
			}
			answer := 100 * time.Millisecond
			if given, ok := set["VALKEY_TIMEOUT"]; ok {
				if answer, err = time.ParseDuration(text(given)); err != nil {
					t.Fatalf("%s: %v", id, err)
				}
			}
			ends, err := time.ParseDuration(text(ours(t, made, id).Properties["Timeout"]) + "s")
			if err != nil {
				t.Fatalf("%s: %v", id, err)
			}
			if connect+answer*3/2 >= ends || id == "Check" && ends >= apiGatewayWaits {
				t.Errorf("%s: got time-out %s, want more than %s to connect and %s for the answer", id, ends,
					connect, answer*3/2)
			}
		}
	})
}

func environment(t *testing.T, made template, function string) properties {
	t.Helper()
	variables, _ := ours(t, made, function).Properties.at("Environment", "Variables").(map[string]any)
	return variables
}

// ours returns the check or the admin function.
func ours(t *testing.T, made template, id string) resource {
	t.Helper()
	for _, f := range made.all("AWS::Lambda::Function") {
		if strings.HasPrefix(f.id, id) && f.Properties["Runtime"] == "provided.al2023" {
			return f
		}
	}
	t.Fatalf("want function %s in the template", id)
	return resource{}
}

func TestFunctions(t *testing.T) {
	on(t, func(t *testing.T, made template) {
		for id, timeout := range map[string]int{"Check": settings.CheckTimeout, "Admin": 25} {
			p := ours(t, made, id).Properties
			equal(t, "architecture", p["Architectures"], []any{"arm64"})
			equal(t, "handler", p["Handler"], "bootstrap")
			equal(t, "time-out", p["Timeout"], timeout)
			equal(t, "key of the environment", text(p["KmsKeyArn"]), made.key(t))
			equal(t, "group", text(p.at("VpcConfig", "SecurityGroupIds", 0)), groupOf(t, made, id+"Group"))
			equal(t, "log format", p.at("LoggingConfig", "LogFormat"), "JSON")
			equal(t, "lines that Lambda lets through", p.at("LoggingConfig", "ApplicationLogLevel"), "TRACE")
			log := made.only(t, "AWS::Logs::LogGroup", id+"Log")
			equal(t, "log", text(p.at("LoggingConfig", "LogGroup")), "${"+log.id+"}")
		}
	})
}

// Stage prod reserves concurrency. A dev stage does not, since AWS refuses it in a new
// account with 10 environments.
func TestReservedConcurrency(t *testing.T) {
	for id, reserved := range map[string]int{"Check": 100, "Admin": 33} {
		equal(t, "prod "+id, ours(t, of(t, minimal), id).Properties["ReservedConcurrentExecutions"], reserved)
		equal(t, "dev "+id, ours(t, of(t, dev), id).Properties["ReservedConcurrentExecutions"], nil)
	}
}

// The template has only references to secrets, which CloudFormation resolves at
// deployment.
func TestSecretsAreReferences(t *testing.T) {
	on(t, func(t *testing.T, made template) {
		for variable, where := range map[string][2]string{
			"KEY_PEPPER":     {"Check", "Pepper"},
			"ADMIN_PASSWORD": {"Admin", "Password"},
		} {
			equal(
				t,
				variable,
				text(environment(t, made, where[0])[variable]),
				"{{resolve:secretsmanager:"+ref(t, made, "AWS::SecretsManager::Secret",
					where[1])+":SecretString:::}}",
			)
		}
		equal(t, "pepper", text(environment(t, made, "Check")["KEY_PEPPER"]),
			text(environment(t, made, "Admin")["KEY_PEPPER"]))
		for _, secret := range made.all("AWS::SecretsManager::Secret") {
			if secret.Properties["SecretString"] != nil || secret.Properties["GenerateSecretString"] == nil {
				t.Errorf("%s: want a generated value, and none in the template", secret.id)
			}
			equal(t, "key", text(secret.Properties["KmsKeyId"]), made.key(t))
		}
	})
	for variable, name := range map[string]string{"OIDC_CLIENT_SECRET": "login/tidegate",
		"ADMIN_USERS": "login/users"} {
		equal(t, variable, text(environment(t, of(t, prod), "Admin")[variable]),
			"{{resolve:secretsmanager:"+name+":SecretString:::}}")
	}
}

// All stored data is encrypted with the stack's own key.
func TestEncryption(t *testing.T) {
	properties := map[string]string{
		"AWS::Logs::LogGroup": "KmsKeyId", "AWS::SNS::Topic": "KmsMasterKeyId",
		"AWS::SecretsManager::Secret":       "KmsKeyId",
		"AWS::ElastiCache::ServerlessCache": "KmsKeyId", "AWS::ElastiCache::ReplicationGroup": "KmsKeyId",
	}
	on(t, func(t *testing.T, made template) {
		for kind, property := range properties {
			for _, r := range made.all(kind) {
				if strings.HasPrefix(r.id, "Backend") {
					continue // of the example, whose log has nothing of a call
				}
				equal(t, r.id, text(r.Properties[property]), made.key(t))
			}
		}
		key := made.only(t, "AWS::KMS::Key", "").Properties
		equal(t, "rotation", key["EnableKeyRotation"], true)
	})
}

// The retention of logs depends on the stage.
func TestLogRetention(t *testing.T) {
	for days, build := range map[int]func() (template, error){14: dev, 180: minimal} {
		groups := of(t, build).all("AWS::Logs::LogGroup")
		if len(groups) < 2 {
			t.Errorf("got %d log groups, want at least 2", len(groups))
		}
		for _, group := range groups {
			if group.id[:7] == "Backend" {
				continue // of the example
			}
			equal(t, group.id, group.Properties["RetentionInDays"], days)
		}
	}
}

func TestOutputs(t *testing.T) {
	common := []string{
		"AdminSecurityGroup", "AlarmTopicArn",
		"ChangesLog",
		"CheckFunctionArn",
		"CheckSecurityGroup",
		"DashboardUrl",
		"EncryptionKey",
		"FirstLogin",
	}
	for build, more := range map[*func() (template, error)][]string{
		&dev: {"ExampleHttpAuthorizerArn", "ExampleHttpUrl", "ExampleRestAuthorizerArn",
			"ExampleRestUrl"},
		&minimal: nil,
	} {
		made := of(t, *build)
		outputs := slices.Concat(common, more)
		slices.Sort(outputs)
		equal(t, "outputs", sorted(made.Outputs), outputs)
		login := text(made.Outputs["FirstLogin"].Value)
		name := text(made.only(t, "AWS::SecretsManager::Secret", "Password").Properties["Name"])
		if !strings.HasSuffix(login, "--secret-id "+name) {
			t.Errorf("got first login %q, want it to read %s", login, name)
		}
	}
	outputs := of(t, prod).Outputs
	equal(t, "own domain", outputs["DashboardUrl"].Value, "https://limits.example.com/")
	equal(t, "what it points to", text(outputs["DashboardTarget"].Value),
		"${"+of(t, prod).only(t, "AWS::ApiGatewayV2::DomainName", "").id+".RegionalDomainName}")
}

// A deleted dev stage leaves only its log of changes. Prod retains what cannot be recreated, except after
// a failed first deployment, since the names would be taken.
func TestRemoval(t *testing.T) {
	data := regexp.MustCompile(`^(EncryptionKey|KeysPepper|CheckLog|AdminLog)[0-9A-F]*$`)
	for id, r := range of(t, dev).Resources {
		if strings.HasPrefix(r.Type, "AWS::S3::") {
			continue // the log of changes
		}
		if strings.HasPrefix(r.DeletionPolicy, "Retain") || r.DeletionPolicy == "Snapshot" {
			t.Errorf("dev: got %s with policy %s, want it deleted", id, r.DeletionPolicy)
		}
	}
	on(t, func(t *testing.T, made template) {
		if strings.HasSuffix(t.Name(), "dev") {
			return
		}
		for id, r := range made.Resources {
			if data.MatchString(id) &&
				(r.DeletionPolicy != "RetainExceptOnCreate" || r.UpdateReplacePolicy != "Retain") {
				t.Errorf("got %s with policies %s and %s, want it retained", id, r.DeletionPolicy,
					r.UpdateReplacePolicy)
			}
		}
	})
	snapshot := of(t, minimal).only(t, "AWS::ElastiCache::ServerlessCache",
		"").Properties["FinalSnapshotName"]
	if got := fmt.Sprint(snapshot); !strings.Contains(got, "tidegate-prod-final") ||
		!strings.Contains(got, "AWS::StackId") {
		t.Errorf("got last snapshot %s, want the stage's name and a part of the stack's id", got)
	}
	equal(t, "dev's last snapshot",
		of(t, dev).only(t, "AWS::ElastiCache::ServerlessCache", "").Properties["FinalSnapshotName"], nil)
	equal(t, "nodes", of(t, prod).only(t, "AWS::ElastiCache::ReplicationGroup",
		"").DeletionPolicy, "Snapshot")
}

func TestTags(t *testing.T) {
	made := of(t, prod)
	for _, r := range append(made.all("AWS::Lambda::Function"), made.all("AWS::EC2::VPC")...) {
		tags := map[string]string{}
		for _, tag := range list(r.Properties["Tags"]) {
			pair, _ := tag.(map[string]any)
			tags[text(pair["Key"])] = text(pair["Value"])
		}
		for name, value := range map[string]string{"Application": "Tidegate", "Stage": "prod", "team": "api",
			"centre": "42"} {
			equal(t, r.id+" "+name, tags[name], value)
		}
	}
}
