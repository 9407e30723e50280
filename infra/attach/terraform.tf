# Puts Tidegate before a REST API and an HTTP API: a REQUEST authorizer each, results
# never cached, and permission for exactly these authorizers. Leave out the half that you
# do not need.

terraform {
  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 6.0"
    }
  }
}

variable "check_function_arn" {
  description = "Output CheckFunctionArn of the Tidegate stack"
  type        = string
}

variable "rest_api_id" {
  type = string
}

variable "rest_api_execution_arn" {
  type = string
}

variable "http_api_id" {
  type = string
}

variable "http_api_execution_arn" {
  type = string
}

data "aws_region" "current" {}

locals {
  invoke_uri = "arn:aws:apigateway:${data.aws_region.current.region}:lambda:path/2015-03-31/functions/${var.check_function_arn}/invocations"
}

resource "aws_api_gateway_authorizer" "limits" {
  name                             = "tidegate"
  rest_api_id                      = var.rest_api_id
  type                             = "REQUEST"
  authorizer_uri                   = local.invoke_uri
  authorizer_result_ttl_in_seconds = 0
  # The provider sends a header where nothing is set, and "" as it is, which API Gateway
  # refuses. This source is in every call.
  identity_source = "context.accountId"
}

resource "aws_lambda_permission" "rest" {
  action        = "lambda:InvokeFunction"
  function_name = var.check_function_arn
  principal     = "apigateway.amazonaws.com"
  source_arn    = "${var.rest_api_execution_arn}/authorizers/${aws_api_gateway_authorizer.limits.id}"
}

# Your aws_api_gateway_deployment must be made anew after each change here: until then its
# stages answer 403 without Retry-After. Give it
#   depends_on = [
#     aws_api_gateway_gateway_response.too_many_requests,
#     aws_api_gateway_gateway_response.unauthorized,
#   ]
# and in triggers = { redeployment = sha1(jsonencode([…])) }, among what you have there,
# all three resources of the REST API.
resource "aws_api_gateway_gateway_response" "too_many_requests" {
  rest_api_id   = var.rest_api_id
  response_type = "ACCESS_DENIED"
  status_code   = "429"

  response_parameters = {
    "gatewayresponse.header.Access-Control-Allow-Origin"   = "'*'"
    "gatewayresponse.header.Access-Control-Expose-Headers" = "'Retry-After,RateLimit,RateLimit-Policy'"
    "gatewayresponse.header.Cache-Control"                 = "'no-store'"
    "gatewayresponse.header.Content-Type"                  = "'application/problem+json'"
    "gatewayresponse.header.RateLimit"                     = "context.authorizer.rateLimit"
    "gatewayresponse.header.RateLimit-Policy"              = "context.authorizer.rateLimitPolicy"
    "gatewayresponse.header.Retry-After"                   = "context.authorizer.retryAfter"
  }

  response_templates = {
    "application/json" = "{\"type\":\"$context.authorizer.problemType\",\"title\":\"Too Many Requests\",\"status\":429,\"detail\":\"$context.authorizer.message\",\"violated-policies\":[\"$context.authorizer.violatedPolicy\"],\"retry-after\":\"$context.authorizer.wait\",\"instance\":\"urn:uuid:$context.requestId\"}"
  }
}

resource "aws_api_gateway_gateway_response" "unauthorized" {
  rest_api_id   = var.rest_api_id
  response_type = "UNAUTHORIZED"
  status_code   = "401"

  response_parameters = {
    "gatewayresponse.header.Access-Control-Allow-Origin"   = "'*'"
    "gatewayresponse.header.Access-Control-Expose-Headers" = "'Retry-After,RateLimit,RateLimit-Policy'"
    "gatewayresponse.header.Cache-Control"                 = "'no-store'"
    "gatewayresponse.header.Content-Type"                  = "'application/problem+json'"
    "gatewayresponse.header.WWW-Authenticate"              = "'Bearer realm=\"tidegate\"'"
  }

  response_templates = {
    "application/json" = "{\"type\":\"about:blank\",\"title\":\"Unauthorized\",\"status\":401,\"detail\":\"A valid credential is required.\",\"instance\":\"urn:uuid:$context.requestId\"}"
  }
}

resource "aws_apigatewayv2_authorizer" "limits" {
  name                              = "tidegate"
  api_id                            = var.http_api_id
  authorizer_type                   = "REQUEST"
  authorizer_uri                    = local.invoke_uri
  authorizer_payload_format_version = "2.0"
  enable_simple_responses           = true
  authorizer_result_ttl_in_seconds  = 0
  identity_sources                  = []
}

resource "aws_lambda_permission" "http" {
  action        = "lambda:InvokeFunction"
  function_name = var.check_function_arn
  principal     = "apigateway.amazonaws.com"
  source_arn    = "${var.http_api_execution_arn}/authorizers/${aws_apigatewayv2_authorizer.limits.id}"
}

# An integration adds the RateLimit fields for each status code that the backend answers
# with.
resource "aws_apigatewayv2_integration" "backend" {
  api_id             = var.http_api_id
  integration_type   = "HTTP_PROXY"
  integration_method = "ANY"
  integration_uri    = "https://backend.example.com"

  dynamic "response_parameters" {
    for_each = ["200", "404", "500"]
    content {
      status_code = response_parameters.value
      mappings = {
        "overwrite:header.RateLimit"        = "$context.authorizer.rateLimit"
        "overwrite:header.RateLimit-Policy" = "$context.authorizer.rateLimitPolicy"
      }
    }
  }
}
