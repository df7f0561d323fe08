<?php
// The program that coax certify drives: one JSON order per line of input, one outcome per line of output.
require __DIR__ . '/../autoload.php';

while (($line = fgets(STDIN)) !== false) {
    $order = json_decode($line, false, 512, JSON_THROW_ON_ERROR);
    $answer = ['id' => $order->id, 'outcome' => 'success', 'transaction_id' => '', 'code' => ''];
    try {
        $client = new Coax\Client($order->base_url, $order->api_key, $order->api_secret, $order->ca_cert ?? null);
        $method = ['activate' => 'activate', 'renew' => 'renew', 'advance-renew' => 'advanceRenew'][$order->operation];
        $operation = $client->$method($order->body, $order->idempotency_key);
        $answer['transaction_id'] = $operation->transaction_id;
        $answer['charged'] = (string) $operation->wallet->charged;
    } catch (Coax\CoaxError $error) {
        $answer['outcome'] = $error->undecided ? 'pending' : 'failed';
        $answer['transaction_id'] = $error->operation?->transaction_id ?? '';
        $answer['code'] = $error->code;
    }
    echo json_encode($answer), "\n";
}
