# Deploys a release. Nothing is applied: the emulator lacks most of the stack's resources.

provider "aws" {
  region                      = "eu-central-1"
  access_key                  = "test"
  secret_key                  = "test"
  skip_credentials_validation = true
  skip_metadata_api_check     = true
  skip_requesting_account_id  = true
}

module "stack" {
  source     = "./stack"
  release    = "dist"
  bucket     = "code-of-tidegate"
  stage      = "prod-eu"
  parameters = { AlarmEmail = "you@example.com" }
}

output "check_function_arn" {
  value = module.stack.check_function_arn
}
