package cost

// Price is AWS's price of one unit in us-east-1, without free tiers and discounts.
type Price struct {
	USD    float64
	Unit   string
	Source string
}

// PricesNoted is the date of the prices.
const PricesNoted = "2026-11-21"

// The prices, as AWS's pricing pages state them. Other regions differ by some ten
// percent.
var (
	serverlessStorage = Price{.084, "GB-hour", elastiCache}
	serverlessECPU    = Price{.0023, "million ECPUs", elastiCache}
	lambdaRequests    = Price{.20, "million requests", lambda}
	lambdaDuration    = Price{.0000133334, "GB-second, arm64", lambda}
	restCalls         = Price{3.50, "million calls", apiGateway}
	httpCalls         = Price{1.00, "million calls", apiGateway}
	logIngestion      = Price{.50, "GB", cloudWatch}
	customMetric      = Price{.30, "metric-month", cloudWatch}
	alarm             = Price{.10, "metric of an alarm-month", cloudWatch}
	dashboard         = Price{3.00, "dashboard-month", cloudWatch}
	trace             = Price{5.00, "million traces", "aws.amazon.com/xray/pricing"}
	kmsKey            = Price{1.00, "key-month", "aws.amazon.com/kms/pricing"}
	kmsRotation       = Price{1.00, "rotation-month", "aws.amazon.com/kms/pricing"}
	zoneTraffic       = Price{.01, "GB and direction", "aws.amazon.com/ec2/pricing/on-demand"}
	secret            = Price{.40, "secret-month", "aws.amazon.com/secrets-manager/pricing"}
	s3Put             = Price{.005, "1,000 requests", s3}
	s3Get             = Price{.0004, "1,000 requests", s3}
	s3Storage         = Price{.023, "GB-month", s3}
	eventBridgeEvents = Price{1.00, "million events", "aws.amazon.com/eventbridge/pricing"}
	snsRequests       = Price{.50, "million requests", "aws.amazon.com/sns/pricing"}
	natGateway        = Price{.045, "hour", vpc}
	publicAddress     = Price{.005, "hour", vpc}
	webACL            = Price{5.00, "web ACL-month", waf}
	webACLRule        = Price{1.00, "rule-month", waf}
	webACLRequests    = Price{.60, "million requests", waf}
)

const (
	elastiCache = "aws.amazon.com/elasticache/pricing"
	lambda      = "aws.amazon.com/lambda/pricing"
	apiGateway  = "aws.amazon.com/api-gateway/pricing"
	cloudWatch  = "aws.amazon.com/cloudwatch/pricing"
	s3          = "aws.amazon.com/s3/pricing"
	vpc         = "aws.amazon.com/vpc/pricing"
	waf         = "aws.amazon.com/waf/pricing"
)

// nodes has the price of an hour of each node type with Valkey, which is a fifth below
// the price with Redis OSS.
var nodes = map[string]float64{
	"cache.t4g.micro":  .0128,
	"cache.t4g.small":  .0256,
	"cache.t4g.medium": .0520,
	"cache.m7g.large":  .1264,
	"cache.m7g.xlarge": .2520,
	"cache.r7g.large":  .1752,
	"cache.r7g.xlarge": .3496,
}
