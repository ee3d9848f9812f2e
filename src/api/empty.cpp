// SPDX-License-Identifier: Apache-2.0
// librondo.so consists of the internal archive. This file exists because the build target needs a source.
