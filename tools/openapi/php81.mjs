// Runs the unit tests of the PHP SDK in PHP 8.1, its oldest version, which Debian does not
// have: a build of it in WebAssembly. Run by `make openapi-lint`, with the folder sdk.
import { readFileSync, readdirSync } from "node:fs";
import { join, relative } from "node:path";
import { getPHPLoaderModule } from "@php-wasm/node-8-1";
import { PHP, loadPHPRuntime } from "@php-wasm/universal";

const folder = process.argv[2];
const php = new PHP(await loadPHPRuntime(await getPHPLoaderModule()));
const files = readdirSync(folder, { recursive: true, withFileTypes: true })
  .filter((entry) => entry.isFile())
  .map((entry) => join(entry.parentPath ?? entry.path, entry.name))
  .filter((path) => /\.(php|md)$/.test(path));
for (const path of files) {
  const copy = join("/sdk", relative(folder, path));
  php.mkdir(join(copy, ".."));
  php.writeFile(copy, readFileSync(path));
}
// Examples and the driver are only parsed: they need a service.
const code = `<?php
  if (!str_starts_with(PHP_VERSION, '8.1.')) throw new Exception('this is PHP ' . PHP_VERSION);
  foreach (new RecursiveIteratorIterator(new RecursiveDirectoryIterator('/sdk/php', FilesystemIterator::SKIP_DOTS)) as $file) {
    if ($file->getExtension() === 'php') token_get_all(file_get_contents($file), TOKEN_PARSE);
  }
  const WITHOUT_NETWORK = true;
  require '/sdk/php/tests/run.php';`;
try {
  const { text } = await php.run({ code });
  process.stdout.write(text);
} catch (error) {
  console.error(error.response?.text ?? error, error.response?.errors ?? "");
  process.exitCode = 1;
}
process.exit();
