<?php

// Renews subscribers from a table of orders. It may be killed at any moment and run
// again: no order is paid twice, and none is forgotten.
//
//     php renewals.php CREDENTIALS ORDERS
//
// CREDENTIALS is a JSON file such as .demo/demo.json. ORDERS is a CSV file with the
// columns order, subscriber_id, plan_id, state (open, done or failed) and
// transaction_id. The exit status is 1 if an order is still open.

declare(strict_types=1);

use Coax\Code;

require __DIR__ . '/../autoload.php';

// Nothing was charged, and calling again would not help. After every other error the order stays open.
const FINAL_CODES = [Code::PROVIDER_ERROR, Code::SUBSCRIBER_NOT_FOUND, Code::INVALID_PLAN, Code::VALIDATION_ERROR];

// A file that cannot be read or written ends the program.
set_error_handler(fn (int $level, string $text) => throw new ErrorException($text, 0, $level));

if ($argc !== 3) {
    fwrite(STDERR, "usage: php renewals.php CREDENTIALS ORDERS\n");
    exit(2);
}
$given = json_decode(file_get_contents($argv[1]), false, 512, JSON_THROW_ON_ERROR);
$client = new Coax\Client($given->base_url, $given->api_key, $given->api_secret, $given->ca_cert ?? null);
$orders = load($argv[2]);
foreach ($orders as $i => $order) {
    if ($order['state'] === 'open') {
        $orders[$i] = renew($client, $order);
        store($argv[2], $orders);
    }
}
exit(in_array('open', array_column($orders, 'state'), true) ? 1 : 0);

/** Carries out an order, and returns it with its new state. */
function renew(Coax\Client $client, array $order): array
{
    // The key follows from the order, so that every run uses the same one.
    $key = 'renewal-of-order-' . $order['order'];
    try {
        $done = $client->renew(['subscriber_id' => $order['subscriber_id'], 'plan_id' => $order['plan_id']], $key);
        $order['state'] = 'done';
        $order['transaction_id'] = $done->transaction_id;
        echo "order {$order['order']}: renewed for {$done->wallet->charged} until {$done->expiry->new}\n";
    } catch (Coax\CoaxError $error) {
        if (!$error->undecided && in_array($error->code, FINAL_CODES, true)) {
            $order['state'] = 'failed';
        }
        echo "order {$order['order']}: {$order['state']}: {$error->getMessage()}\n";
    }
    return $order;
}

function load(string $file): array
{
    $table = fopen($file, 'r');
    $names = fgetcsv($table, null, ',', '"', '');
    $orders = [];
    while (($row = fgetcsv($table, null, ',', '"', '')) !== false) {
        $orders[] = array_combine($names, $row);
    }
    fclose($table);
    return $orders;
}

/** Replaces the table as a whole, on disk: half a table would forget orders. */
function store(string $file, array $orders): void
{
    $table = fopen("$file.new", 'w');
    foreach ([array_keys($orders[0]), ...$orders] as $row) {
        fputcsv($table, $row, ',', '"', '');
    }
    fsync($table) || throw new RuntimeException("$file.new was not flushed to disk");
    fclose($table);
    rename("$file.new", $file);
}
