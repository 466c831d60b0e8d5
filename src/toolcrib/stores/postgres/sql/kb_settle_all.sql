UPDATE toolcrib.kb_document SET lacks_vectors = false WHERE fleet = %s AND collection = %s AND lacks_vectors
