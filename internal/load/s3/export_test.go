package s3

// Create begins an upload in parts.
var Create = (*Client).create
