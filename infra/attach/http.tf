# Puts Tidegate before an HTTP API: a REQUEST authorizer with simple responses, results
# never cached, and permission for exactly this authorizer.

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

variable "http_api_id" {
  type = string
}

variable "http_api_execution_arn" {
  type = string
}

data "aws_region" "current" {}

data "aws_partition" "current" {}

resource "aws_apigatewayv2_authorizer" "limits" {
  name                              = "tidegate"
  api_id                            = var.http_api_id
  authorizer_type                   = "REQUEST"
  authorizer_uri                    = "arn:${data.aws_partition.current.partition}:apigateway:${data.aws_region.current.region}:lambda:path/2015-03-31/functions/${var.check_function_arn}/invocations"
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

# Your aws_apigatewayv2_integration adds the RateLimit fields to answers, for each status
# code of the backend:
#
# dynamic "response_parameters" {
#   for_each = ["200", "404", "500"]
#   content {
#     status_code = response_parameters.value
#     mappings = {
#       "overwrite:header.RateLimit"        = "$context.authorizer.rateLimit"
#       "overwrite:header.RateLimit-Policy" = "$context.authorizer.rateLimitPolicy"
#     }
#   }
# }
